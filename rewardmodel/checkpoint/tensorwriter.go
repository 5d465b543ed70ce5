package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
)

// marshalHeader is the length and JSON of a safetensors header, padded with spaces
// so that the tensors start at a multiple of 8.
func marshalHeader(entries map[string]any) ([]byte, error) {
	text, err := json.Marshal(entries, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}

// tensorWriter forwards the bytes of one tensor and rejects excess bytes and
// non-finite floats, so that every checkpoint that is written can be opened.
type tensorWriter struct {
	out    io.Writer
	tensor Tensor
	left   int64
	part   []byte // of an element that the last Write split
}

func (w *tensorWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		return 0, fmt.Errorf("more than the %d bytes that shape %v of %s takes", w.tensor.bytes(), w.tensor.Shape, w.tensor.DType)
	}
	width := w.tensor.DType.Size()
	whole := p
	for len(w.part) > 0 && len(whole) > 0 {
		w.part = append(w.part, whole[0])
		whole = whole[1:]
		if len(w.part) == width {
			if w.tensor.DType.nonFinite(w.part) >= 0 {
				return 0, ErrNotFinite
			}
			w.part = w.part[:0]
		}
	}
	if w.tensor.DType.nonFinite(whole) >= 0 {
		return 0, ErrNotFinite
	}
	w.part = append(w.part, whole[len(whole)-len(whole)%width:]...)
	n, err := w.out.Write(p)
	w.left -= int64(n)
	return n, err
}
