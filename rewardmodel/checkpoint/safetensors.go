package checkpoint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The format (https://huggingface.co/docs/safetensors): 8 bytes of header
// length (little-endian), a JSON object of that length, then the tensors
// without gaps. The first bound is the reference implementation's; the second
// keeps a hostile header from costing much more memory than its own size.
const (
	maxHeader  = 100_000_000
	maxTensors = 1 << 17
)

// stored is a tensor in a safetensors file: bytes [start,end) of the file.
type stored struct {
	name       string
	dtype      DType
	shape      []int
	start, end int64
}

// headerEntry is one tensor of a header.
type headerEntry struct {
	DType   DType   `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// readHeader reads the header of a safetensors file of the given size and
// checks all that the format promises. It reads nothing beyond the header and
// returns the tensors in the order of their bytes.
func readHeader(r io.ReaderAt, size int64) ([]stored, error) {
	var prefix [8]byte
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		if size < 8 {
			return nil, fmt.Errorf("only %d bytes long, too short for a safetensors file: %w", size, ErrDamaged)
		}
		return nil, err
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if string(prefix[:]) == "version " {
		return nil, fmt.Errorf("this is a Git LFS pointer, not the weights; run `git lfs pull`: %w", ErrDamaged)
	}
	if strings.HasPrefix(string(prefix[:]), "PK\x03\x04") || prefix[0] == 0x80 && prefix[1] == 2 {
		return nil, fmt.Errorf("this is a pickle, which can run code when it is loaded, not safetensors; convert it: %w", ErrUnsupported)
	}
	if length > maxHeader {
		return nil, fmt.Errorf("header length %d is over %d: %w", length, maxHeader, ErrDamaged)
	}
	if int64(length) > size-8 {
		return nil, fmt.Errorf("header length %d passes the end of the file of %d bytes; it is truncated: %w", length, size, ErrDamaged)
	}
	var first [1]byte
	if length > 0 {
		if _, err := r.ReadAt(first[:], 8); err != nil {
			return nil, err
		}
	}
	if first[0] != '{' {
		return nil, fmt.Errorf("header does not begin with '{'; this is not a safetensors file: %w", ErrDamaged)
	}
	tensors, err := parseHeader(io.NewSectionReader(r, 8, int64(length)))
	if err != nil {
		return nil, err
	}
	if err := place(tensors, 8+int64(length), size); err != nil {
		return nil, err
	}
	return tensors, nil
}

// parseHeader decodes the JSON of a header; offsets still count from the end
// of the header.
func parseHeader(r io.Reader) ([]stored, error) {
	damaged := func(err error) error {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("header: %w: %w", err, ErrDamaged)
	}
	// The decoder refuses duplicate names by itself.
	decoder := jsontext.NewDecoder(r)
	if _, err := decoder.ReadToken(); err != nil { // the opening brace
		return nil, damaged(err)
	}
	var tensors []stored
	for decoder.PeekKind() != '}' {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, damaged(err)
		}
		name := token.String()
		if name == "__metadata__" {
			var metadata map[string]string
			if err := json.UnmarshalDecode(decoder, &metadata); err != nil {
				return nil, damaged(err)
			}
			continue
		}
		if len(tensors) == maxTensors {
			return nil, fmt.Errorf("header names more than %d tensors: %w", maxTensors, ErrDamaged)
		}
		var entry headerEntry
		if err := json.UnmarshalDecode(decoder, &entry); err != nil {
			return nil, damaged(err)
		}
		tensor, err := entry.check(name)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, tensor)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, damaged(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("header: more than one JSON value: %w", ErrDamaged)
	}
	return tensors, nil
}

// check holds an entry's offsets against its shape and type.
func (e headerEntry) check(name string) (stored, error) {
	damaged := func(format string, args ...any) (stored, error) {
		return stored{}, fmt.Errorf("tensor %q: "+format+": %w", append(append([]any{name}, args...), ErrDamaged)...)
	}
	width := e.DType.Size()
	if width == 0 {
		return damaged("unknown dtype %q", string(e.DType))
	}
	if e.Shape == nil {
		return damaged("shape is missing")
	}
	if len(e.Shape) > 16 {
		return damaged("%d dimensions", len(e.Shape))
	}
	if len(e.Offsets) != 2 {
		return damaged("data_offsets must be two numbers")
	}
	start, end := e.Offsets[0], e.Offsets[1]
	if start < 0 || end < start {
		return damaged("data_offsets [%d,%d] are not a range", start, end)
	}
	bytes := int64(width)
	shape := make([]int, len(e.Shape))
	empty := slices.Contains(e.Shape, 0)
	for i, n := range e.Shape {
		if n < 0 || int64(int(n)) != n {
			return damaged("shape %v has an impossible dimension", e.Shape)
		}
		shape[i] = int(n)
		if !empty && bytes > math.MaxInt64/n {
			return damaged("shape %v is too large", e.Shape)
		}
		bytes *= n
	}
	if empty {
		bytes = 0
	}
	if end-start != bytes {
		return damaged("data_offsets span %d bytes but shape %v of %s takes %d", end-start, e.Shape, e.DType, bytes)
	}
	return stored{name: name, dtype: e.DType, shape: shape, start: start, end: end}, nil
}

// place sorts the tensors by offset, checks that they cover the rest of the
// file without gap, overlap or remainder, and makes their offsets absolute.
func place(tensors []stored, base, size int64) error {
	slices.SortFunc(tensors, func(a, b stored) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Compare(a.end, b.end)
	})
	var at int64
	for i := range tensors {
		t := &tensors[i]
		if t.end > size-base {
			return fmt.Errorf("tensor %q ends at byte %d of %d; the file is truncated or the offset is out of range: %w", t.name, t.end, size-base, ErrDamaged)
		}
		if t.start < at {
			return fmt.Errorf("tensor %q overlaps the one before it: %w", t.name, ErrDamaged)
		}
		if t.start > at {
			return fmt.Errorf("tensor %q leaves a hole of %d bytes before it: %w", t.name, t.start-at, ErrDamaged)
		}
		at = t.end
		t.start += base
		t.end += base
	}
	if at != size-base {
		return fmt.Errorf("%d bytes follow the last tensor: %w", size-base-at, ErrDamaged)
	}
	return nil
}
