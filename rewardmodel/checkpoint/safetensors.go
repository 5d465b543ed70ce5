package checkpoint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxHeader is the bound of the format's reference implementation, in bytes.
const maxHeader = 100_000_000

// stored is a tensor in a safetensors file: bytes [start,end) of the file.
type stored struct {
	name       string
	dtype      DType
	shape      []int
	start, end int64
}

// readHeader reads the header of a safetensors file of the given size and
// validates everything that the format guarantees. The format
// (https://huggingface.co/docs/safetensors) is 8 bytes of header length
// (little-endian), a JSON object of that length, then the tensors without
// gaps. Nothing after the header is read. The tensors are in the order of their
// bytes.
func readHeader(r io.ReaderAt, size int64) ([]stored, error) {
	if size < 10 {
		return nil, fmt.Errorf("only %d bytes long, too short for a safetensors file: %w", size, ErrDamaged)
	}
	start := make([]byte, 9)
	if _, err := r.ReadAt(start, 0); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(start)
	if length > maxHeader || int64(length) > size-8 {
		return nil, wrongLength(string(start), length, size)
	}
	if length < 2 || start[8] != '{' {
		return nil, fmt.Errorf("the header does not start with '{'; this is not a safetensors file: %w", ErrDamaged)
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

// wrongLength identifies a file whose first bytes are not a header length.
func wrongLength(start string, length uint64, size int64) error {
	switch {
	case strings.HasPrefix(start, "version "):
		return fmt.Errorf("this is a Git LFS pointer, not the weights; run `git lfs pull`: %w", ErrDamaged)
	case strings.HasPrefix(start, "PK\x03\x04"), strings.HasPrefix(start, "\x80\x02"):
		return fmt.Errorf("this is a pickle, which can run code when it is loaded; convert it to safetensors with transformers' save_pretrained: %w", ErrUnsupported)
	case length > maxHeader:
		return fmt.Errorf("header length %d is over %d: %w", length, maxHeader, ErrDamaged)
	}
	return fmt.Errorf("header length %d exceeds the file of %d bytes; the file is truncated: %w", length, size, ErrDamaged)
}

// place sorts the tensors by offset, checks that they cover the rest of the
// file without gap, overlap or remainder, and makes their offsets absolute.
func place(tensors []stored, base, size int64) error {
	slices.SortFunc(tensors, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	var at int64
	for i := range tensors {
		t := &tensors[i]
		if t.end > size-base {
			return fmt.Errorf("tensor %.80q ends at byte %d of %d; the file is truncated or the offset is out of range: %w", t.name, t.end, size-base, ErrDamaged)
		}
		if t.start < at {
			return fmt.Errorf("tensor %.80q overlaps the one before it: %w", t.name, ErrDamaged)
		}
		if t.start > at {
			return fmt.Errorf("tensor %.80q leaves a hole of %d bytes before it: %w", t.name, t.start-at, ErrDamaged)
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
