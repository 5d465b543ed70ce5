package checkpoint

import "errors"

// The kinds of failure that a caller may want to tell apart with errors.Is.
// The message around them names the file and the tensor or field.
var (
	// ErrDamaged says that a file is truncated, malformed, or contradicts
	// itself, its configuration or its checksum.
	ErrDamaged = errors.New("damaged checkpoint")
	// ErrUnsupported says that a checkpoint may be sound but is of a kind
	// that cannot be run here: another architecture, a pickle, a quantised
	// weight.
	ErrUnsupported = errors.New("unsupported checkpoint")
	// ErrNotFinite says that a weight is NaN or infinite.
	ErrNotFinite = errors.New("weight is not finite")
	// ErrNoTensor says that the checkpoint holds no tensor of that name.
	ErrNoTensor = errors.New("no such tensor")
)
