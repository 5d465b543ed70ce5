package checkpoint

import "errors"

// The kinds of failure that a caller can distinguish with errors.Is. The wrapping
// message names the file and the tensor or field.
var (
	// ErrDamaged reports that a file is truncated, malformed, or contradicts
	// itself, its configuration or its checksum.
	ErrDamaged = errors.New("damaged checkpoint")
	// ErrUnsupported reports that a checkpoint may be valid but is of an
	// unsupported kind: another architecture, a pickle, a quantized weight.
	ErrUnsupported = errors.New("unsupported checkpoint")
	// ErrNotFinite reports that a weight is NaN or infinite.
	ErrNotFinite = errors.New("weight is not finite")
	// ErrNoTensor reports that the checkpoint has no tensor of that name.
	ErrNoTensor = errors.New("no such tensor")
)
