package api

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// mediaBytes is the media type of JSON with raw tensors behind it.
const mediaBytes media = "application/octet-stream"

// splitBytes reads a raw BYTES tensor of n elements: each element is its length, as
// 4 bytes in little-endian order, and its text.
func splitBytes(raw []byte, n int) ([]string, error) {
	texts := make([]string, 0, n)
	for len(raw) > 0 {
		if len(texts) == n {
			return nil, errMoreElements(n)
		}
		if len(raw) < 4 {
			return nil, errInvalid("data", "ends within the length of element %d", len(texts))
		}
		size := uint64(binary.LittleEndian.Uint32(raw))
		if raw = raw[4:]; size > uint64(len(raw)) {
			return nil, errInvalid("data", "element %d has %d bytes, and %d are left", len(texts), size, len(raw))
		}
		text, err := textOf(raw[:size], len(texts))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
		raw = raw[size:]
	}
	return texts, nil
}

// textOf reads element i of a BYTES tensor.
func textOf(data []byte, i int) (string, error) {
	if !utf8.Valid(data) {
		return "", errInvalid("data", "element %d is not valid UTF-8; encode it as UTF-8", i)
	}
	return string(data), nil
}

// tensorSize is how many bytes appendTensor writes.
func tensorSize(values []any) int {
	size := 0
	for _, value := range values {
		switch v := value.(type) {
		case bool:
			size++
		case string:
			size += 4 + len(v)
		default:
			size += 4
		}
	}
	return size
}

// appendTensor writes values as a raw tensor, little-endian.
func appendTensor(raw []byte, values []any) []byte {
	for _, value := range values {
		switch v := value.(type) {
		case float32:
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		case int32:
			raw = binary.LittleEndian.AppendUint32(raw, uint32(v)) //nolint:gosec // the same bits
		case bool:
			raw = append(raw, byte(number(v)))
		case string:
			raw = binary.LittleEndian.AppendUint32(raw, uint32(len(v))) //nolint:gosec // a body is below 4 GiB
			raw = append(raw, v...)
		}
	}
	return raw
}
