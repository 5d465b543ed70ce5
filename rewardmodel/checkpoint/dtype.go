package checkpoint

import (
	"encoding/binary"
	"math"
)

// DType is the element type of a stored tensor, spelled as in a safetensors
// header.
type DType string

// The element types that weights may have, and I64, which old checkpoints use
// for a buffer of position numbers that no model reads.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
)

// Size returns the bytes of one element, 0 for a type that safetensors does
// not define or that packs several elements into a byte.
func (d DType) Size() int {
	switch d {
	case "BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ":
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

// Float tells whether d is a type that weights may have: F32, F16 or BF16.
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
	switch d {
	case F32:
		for i := 0; i+4 <= len(b); i += 4 {
			if binary.LittleEndian.Uint32(b[i:])&0x7f800000 == 0x7f800000 {
				return i / 4
			}
		}
	case F16, BF16:
		exponent := uint16(0x7c00)
		if d == BF16 {
			exponent = 0x7f80
		}
		for i := 0; i+2 <= len(b); i += 2 {
			if binary.LittleEndian.Uint16(b[i:])&exponent == exponent {
				return i / 2
			}
		}
	}
	return -1
}

// widen converts the little-endian elements of b to dst, exactly: every F16
// and BF16 value is also a float32. len(b) is len(dst)*d.Size().
func (d DType) widen(dst []float32, b []byte) {
	switch d {
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
