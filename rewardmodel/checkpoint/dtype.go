package checkpoint

import (
	"encoding/binary"
	"math"
)

// DType is the element type of a stored tensor, spelled as in a safetensors
// header.
type DType string

// The element types that weights may have, I8 only with scales (see Quantize),
// and I64, which old checkpoints use for a buffer of position numbers that no
// model reads.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I8   DType = "I8"
	I64  DType = "I64"
)

// Size returns the bytes of one element, 0 for a type that safetensors does
// not define or that packs several elements into a byte.
func (d DType) Size() int {
	switch d {
	case "BOOL", "U8", I8, "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ":
		return 1
	case F16, BF16, "I16", "U16":
		return 2
	case F32, "I32", "U32":
		return 4
	case I64, "U64", "F64", "C64":
		return 8
	}
	return 0
}

// Float reports whether d is F32, F16 or BF16.
func (d DType) Float() bool { return d == F32 || d == F16 || d == BF16 }

// torchName is how config.json names the type.
func (d DType) torchName() string {
	switch d {
	case F16:
		return "float16"
	case BF16:
		return "bfloat16"
	}
	return "float32"
}

// nonFinite returns the index of the first NaN or infinity among the
// little-endian elements of b, -1 when there is none. A float is one of the
// two exactly when all bits of its exponent are set.
func (d DType) nonFinite(b []byte) int {
	exponent, lowest := d.exponentBits()
	if exponent == 0 {
		return -1
	}
	// Eight bytes at a time: adding its lowest bit to an exponent carries
	// into the sign bit, which the mask has cleared, only when all its bits
	// are set.
	const signs = 0x8000_8000_8000_8000 // bit 15 of a float32 stays clear: it is masked and nothing carries there
	var carried uint64
	whole := len(b) &^ 7
	for i := 0; i < whole; i += 8 {
		carried |= binary.LittleEndian.Uint64(b[i:])&exponent + lowest
	}
	var rest [8]byte
	copy(rest[:], b[whole:])
	carried |= binary.LittleEndian.Uint64(rest[:])&exponent + lowest
	if carried&signs == 0 {
		return -1
	}
	width := d.Size()
	for i := 0; i+width <= len(b); i += width {
		copy(rest[:], b[i:i+width])
		clear(rest[width:])
		if (binary.LittleEndian.Uint64(rest[:])&exponent+lowest)&signs != 0 {
			return i / width
		}
	}
	return -1
}

// exponentBits are the bits of the exponents in eight bytes of elements, and
// the lowest of each; 0 for a type that is not a float.
func (d DType) exponentBits() (all, lowest uint64) {
	switch d {
	case F32:
		return 0x7f80_0000_7f80_0000, 0x0080_0000_0080_0000
	case BF16:
		return 0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080
	case F16:
		return 0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400
	}
	return 0, 0
}

// widen converts the little-endian elements of b to dst, exactly: every I8, F16
// and BF16 value is also a float32. len(b) is len(dst)*d.Size().
func (d DType) widen(dst []float32, b []byte) {
	switch d {
	case I8:
		for i := range dst {
			dst[i] = float32(int8(b[i]))
		}
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = halfToFloat(binary.LittleEndian.Uint16(b[2*i:]))
		}
	}
}

// halfToFloat widens an IEEE 754 binary16.
func halfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent := uint32(h>>10) & 0x1f
	fraction := uint32(h & 0x3ff)
	switch exponent {
	case 0: // zero and subnormal: fraction * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// weight reports whether weights may have the type: a float, or I8 with scales.
func (d DType) weight() bool { return d.Float() || d == I8 }
