// Package packedweights keeps the weights of models in the layout in which package encoder reads them, in files that processes
// map into their memory and share.
package packedweights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// ErrInvalid is returned for a file that is not the wanted one, or is damaged.
var ErrInvalid = errors.New("packedweights: not a file of this model, or a damaged one")

// File identifies a file: its name consists of the key and the precision.
type File struct {
	Key       [32]byte // a SHA-256 of what the weights were computed from, and how
	Precision string   // "bf16" or "int8"
	Size      int      // of the weights, in bytes
}

// Deviation is by how much a precision changes the violation of built-in texts, all 0 in bf16.
type Deviation struct {
	Mean, Max float64 // in probability, 0 to 1
	Texts     int
}

// The weights follow a header, which is the same for every level of instructions. All numbers are little-endian:
//
//	 8 bytes  "assay-w\n"
//	32        the key
//	 8        the size of the weights
//	16        the deviation: mean and maximum, as float64
//	 4        the number of its texts
//	 4        CRC-32C of the 68 bytes above and the weights
//	56        zeros
//
// Files only ever appear whole, and never change, since processes have them mapped.
const (
	magic      = "assay-w\n"
	headerSize = 128
)

// header returns the header of a file with these weights.
func header(key [32]byte, d Deviation, weights []byte) []byte {
	h := append([]byte(magic), key[:]...)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(weights)))
	h = binary.LittleEndian.AppendUint64(h, math.Float64bits(d.Mean))
	h = binary.LittleEndian.AppendUint64(h, math.Float64bits(d.Max))
	h = binary.LittleEndian.AppendUint32(h, uint32(d.Texts))
	table := crc32.MakeTable(crc32.Castagnoli)
	h = binary.LittleEndian.AppendUint32(h, crc32.Update(crc32.Checksum(h, table), table, weights))
	return append(h, make([]byte, headerSize-len(h))...)
}

// parse validates a whole file, and returns its weights, which refer to data.
func (f File) parse(data []byte) (weights []byte, d Deviation, err error) {
	if len(data) != headerSize+f.Size {
		return nil, Deviation{}, ErrInvalid
	}
	weights = data[headerSize:]
	d = Deviation{
		Mean:  math.Float64frombits(binary.LittleEndian.Uint64(data[48:])),
		Max:   math.Float64frombits(binary.LittleEndian.Uint64(data[56:])),
		Texts: int(binary.LittleEndian.Uint32(data[64:])),
	}
	if !bytes.Equal(data[:headerSize], header(f.Key, d, weights)) {
		return nil, Deviation{}, ErrInvalid
	}
	return weights, d, nil
}

func (f File) name() string { return fmt.Sprintf("%x.%s", f.Key, f.Precision) }
