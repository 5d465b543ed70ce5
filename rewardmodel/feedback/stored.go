package feedback

import (
	"encoding/hex"
	"fmt"
)

// Stored is a record with its sequence in the stream.
type Stored struct {
	Sequence uint64
	Record   Record
}

// ParseHash is the inverse of Hash.String.
func ParseHash(s string) (h Hash, err error) {
	data, err := hex.DecodeString(s)
	if err != nil || len(data) != len(h) {
		return h, fmt.Errorf("feedback: %.40q is not a hash of %d hexadecimal digits", s, 2*len(h))
	}
	return Hash(data), nil
}
