package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
)

// Tensor is a tensor to write: a canonical name, its type and shape, and a
// function that writes its little-endian, row-major bytes. Scales are the factors
// of its rows, for I8 only.
type Tensor struct {
	Name    string
	DType   DType
	Shape   []int
	Scales  []float32
	WriteTo func(w io.Writer) error
}

func (t Tensor) bytes() int64 {
	n := int64(t.DType.Size())
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Tensor returns a stored tensor under its canonical name for writing, so that a
// checkpoint can be copied tensor by tensor. It is read when it is written, so c
// must stay open until then.
func (c *Checkpoint) Tensor(canonical string) (Tensor, error) {
	t, err := c.find(canonical)
	if err != nil {
		return Tensor{}, err
	}
	scales, err := c.scales(t)
	if err != nil {
		return Tensor{}, err
	}
	return Tensor{Name: canonical, DType: t.dtype, Shape: slices.Clone(t.shape), Scales: scales, WriteTo: func(w io.Writer) error {
		size := t.end - t.start
		buffer := make([]byte, min(chunk, size))
		for at := int64(0); at < size; {
			part := buffer[:min(int64(len(buffer)), size-at)]
			if err := c.readAt(t, part, int(at)); err != nil {
				return err
			}
			if _, err := w.Write(part); err != nil {
				return err
			}
			at += int64(len(part))
		}
		return nil
	}}, nil
}

// FromFloat32 returns values, row-major, as a tensor for writing in a float type:
// unchanged (F32) or rounded to the nearest, ties to even (BF16, F16).
func FromFloat32(name string, dtype DType, shape []int, values []float32) Tensor {
	return Tensor{Name: name, DType: dtype, Shape: shape, WriteTo: func(w io.Writer) error {
		if !dtype.Float() {
			return fmt.Errorf("dtype %s is not F32, F16 or BF16: %w", dtype, ErrUnsupported)
		}
		width := dtype.Size()
		buffer := make([]byte, 0, min(chunk, len(values)*width))
		for rest := values; len(rest) > 0; {
			n := min(cap(buffer)/width, len(rest))
			if _, err := w.Write(dtype.narrow(buffer, rest[:n])); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	}}
}

// narrow appends values to dst, rounded to the nearest, ties to even.
func (d DType) narrow(dst []byte, values []float32) []byte {
	for _, x := range values {
		switch d {
		case F32:
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
		case BF16:
			dst = binary.LittleEndian.AppendUint16(dst, floatToBrain(x))
		case F16:
			dst = binary.LittleEndian.AppendUint16(dst, floatToHalf(x))
		}
	}
	return dst
}

// floatToBrain rounds to bfloat16, the upper half of a float32.
func floatToBrain(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40 // keep it a NaN
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// floatToHalf rounds to an IEEE 754 binary16.
func floatToHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	switch abs := b & 0x7fffffff; {
	case abs > 0x7f800000: // NaN
		return sign | 0x7e00
	case abs >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(abs))*0x1p24))
	default:
		abs += 0xfff + abs>>13&1
		return sign | uint16(abs>>13-112<<10)
	}
}
