package blocks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/minio/highwayhash"
)

// A record of nats-server 2.10 and later: its length in 4 bytes, whose highest bit says
// that there are headers; the sequence in 8, whose highest bits say what it is; the time in
// 8; the length of the subject in 2; the subject; with headers, their length in 4; headers,
// payload; and a checksum in 8. All numbers are little-endian. The checksum covers what is
// between the three lengths.
const (
	fixedSize    = 22
	checksumSize = 8
	lengthSize   = 4  // of the headers
	minRecord    = 30 // a record without subject and payload: a tombstone, or a skipped sequence
	maxRecord    = 32 << 20

	hasHeaders = 1 << 31 // in the length
	erasedBit  = 1 << 63 // in the sequence
	tombstone  = 1 << 62 // of another message, which was deleted
)

// block is the content of a file.
type block struct {
	content []byte
	hash    hash.Hash64
	records []record // up to the first whose length is not possible
}

type record struct {
	at, length int
	sequence   uint64 // as stored
	intact     bool   // the checksum matches
}

// isMessage reports whether it is neither a tombstone nor erased.
func (r record) isMessage() bool {
	return r.sequence&(erasedBit|tombstone) == 0 && r.length > minRecord
}

// parse returns the records of a block of a stream.
func parse(content []byte, stream string, number int) (*block, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, number))
	sum, err := highwayhash.New64(key[:])
	if err != nil {
		return nil, err
	}
	b := &block{content: content, hash: sum}
	for at := 0; at+minRecord <= len(content); {
		length := int(binary.LittleEndian.Uint32(content[at:]) &^ hasHeaders)
		if length < minRecord || length > maxRecord || at+length > len(content) {
			break
		}
		r := record{at: at, length: length, sequence: binary.LittleEndian.Uint64(content[at+4:])}
		end := at + length - checksumSize
		r.intact = bytes.Equal(b.checksum(r), content[end:end+checksumSize])
		b.records = append(b.records, r)
		at += length
	}
	return b, nil
}

// checksum returns what the checksum of a record should be.
func (b *block) checksum(r record) []byte {
	body, subject := b.body(r), b.subjectLength(r)
	b.hash.Reset()
	b.hash.Write(b.content[r.at+4 : r.at+20])
	rest := subject
	if binary.LittleEndian.Uint32(b.content[r.at:])&hasHeaders != 0 {
		rest += lengthSize
	}
	if rest > len(body) {
		return nil
	}
	b.hash.Write(body[:subject])
	b.hash.Write(body[rest:])
	return b.hash.Sum(nil)
}

// body returns what is between the fixed part of a record and its checksum.
func (b *block) body(r record) []byte {
	return b.content[r.at+fixedSize : r.at+r.length-checksumSize]
}

func (b *block) subjectLength(r record) int {
	return int(binary.LittleEndian.Uint16(b.content[r.at+20:]))
}

// subject returns the stored subject, "" if its length is not possible.
func (b *block) subject(r record) string {
	body, length := b.body(r), b.subjectLength(r)
	if length > len(body) {
		return ""
	}
	return string(body[:length])
}

// sequence returns the sequence of a damaged message, and false unless the record is a
// damaged message between intact records. If several sequences are free there, and a bit of
// it is damaged, it may be another one of these, which no message has. before is the last
// sequence of the earlier blocks.
func (b *block) sequence(i int, before uint64) (uint64, bool) {
	r := b.records[i]
	if r.intact || r.length == minRecord || i > 0 && !b.records[i-1].intact ||
		i+1 == len(b.records) || !b.records[i+1].intact {
		return 0, false
	}
	low, high := max(before, lastOf(b.records[:i])), uint64(0)
	for _, next := range b.records[i+1:] {
		if high = next.numbered(); high > 0 {
			break
		}
	}
	stored := r.sequence &^ (erasedBit | tombstone)
	if high == low+2 { // whatever is stored
		return low + 1, true
	}
	return stored, low < stored && stored < high // those of messages that were replaced are free
}

// numbered returns the sequence that an intact record, also an erased one, occupies, or 0.
func (r record) numbered() uint64 {
	if !r.intact || r.sequence&tombstone != 0 {
		return 0
	}
	return r.sequence &^ erasedBit
}

// last returns the last sequence of a block, 0 without one.
func (b *block) last() uint64 { return lastOf(b.records) }

func lastOf(records []record) (last uint64) {
	for _, r := range records {
		last = max(last, r.numbered())
	}
	return last
}

// eraseAll erases the damaged messages that were found, and what they had replaced, and
// reports whether the block, which has the given place among all, has any.
func (b *block) eraseAll(block int, all []found) (changed bool) {
	for i, r := range b.records {
		sequence := r.sequence
		for _, f := range all {
			same := f.block == block && f.record == i
			before := block < f.block || block == f.block && i < f.record
			if same {
				sequence = f.Sequence
			}
			if same || before && r.intact && r.isMessage() && b.subject(r) == f.Subject {
				b.erase(r, sequence)
				changed = true
				break
			}
		}
	}
	return changed
}

// erase overwrites a record as the server does, with the sequence of the message.
func (b *block) erase(r record, sequence uint64) {
	data := b.content[r.at : r.at+r.length]
	clear(data)
	binary.LittleEndian.PutUint32(data, uint32(r.length))
	binary.LittleEndian.PutUint64(data[4:], sequence|erasedBit)
	copy(data[r.length-checksumSize:], b.checksum(r))
}
