// Package poison finds the responses that kill processes: a journal file names the
// responses in flight when a process died, and the replicas share a list of suspects.
package poison

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"os"
	"sync"
	"time"

	"github.com/rs/xid"

	"assay/internal/durable"
)

// A journal file is a header and one slot for each delivery in flight:
//
//	magic    8 bytes
//	created  8 bytes, when the stream of responses was created, Unix nanoseconds
//	owner   20 bytes, the process that wrote the file
//	zeros   12 bytes, so that no slot is in two pages
//	slots   16 bytes each: the sequence of the response, 0 for none; the highest bit
//	         is set while the model computes only this response; then the CRC-64 of
//	         the header, the index of the slot and those 8 bytes, 0 for none
//
// A slot that does not match its checksum is ignored: a response that is not recorded
// costs a further crash, but one that is recorded by mistake may be dead-lettered.
// Earlier releases wrote files without checksums, which count as empty and are replaced.
const (
	journalMagic  = "assayj2\n"
	journalHeader = 48
	ownerSize     = 20
	ownerEnd      = 8 + 8 + ownerSize
	valueSize     = 8
	slotSize      = valueSize + crc64.Size
	slotIsolated  = uint64(1) << 63
)

// Journal records the responses in flight of a process in a file, so that the next
// process that uses the file knows what was in flight when this one died: the server
// cannot tell a crash from a negative acknowledgement, and an embedded server dies
// before it has written what it delivered. Writes are not flushed to the disk: they
// survive a crash of the process, and a power failure is not caused by a response.
//
// A nil journal records nothing.
type Journal struct {
	file *os.File
	sums checksum

	mu     sync.Mutex
	free   []int
	frozen bool // what is in flight stays recorded
}

// Crash is what a process left in its journal.
type Crash struct {
	Owner     string          // id of the process
	Created   int64           // when the stream of responses was created, in Unix nanoseconds
	Sequences map[uint64]bool // of responses in flight; true: the model was computing only this one
}

// ReadJournal returns what the last process left in flight. A missing file, and one
// whose header is not complete, counts as empty, and a damaged slot as free.
func ReadJournal(path string) (left Crash, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return left, nil
	}
	if err != nil {
		return left, fmt.Errorf("crash journal: %w", err)
	}
	if len(data) < journalHeader || string(data[:8]) != journalMagic {
		return left, nil
	}
	header, slots := data[:journalHeader], data[journalHeader:]
	left.Created = int64(binary.LittleEndian.Uint64(header[8:]))
	left.Owner = string(header[16:ownerEnd])
	left.Sequences = map[uint64]bool{}
	sums := newChecksum(header)
	for i := range len(slots) / slotSize {
		slot := slots[i*slotSize:][:slotSize]
		value := binary.LittleEndian.Uint64(slot)
		if value != 0 && binary.LittleEndian.Uint64(slot[valueSize:]) == sums.of(i, value) {
			left.Sequences[value&^slotIsolated] = value&slotIsolated != 0
		}
	}
	return left, nil
}

// NewJournal replaces the file at path by an empty journal of a new owner. slots is
// the maximum number of deliveries in flight.
func NewJournal(path string, owner xid.ID, created time.Time, slots int) (*Journal, error) {
	data := make([]byte, journalHeader+slots*slotSize) // reserves the space on the disk
	copy(data, journalMagic)
	binary.LittleEndian.PutUint64(data[8:], uint64(created.UnixNano()))
	copy(data[16:], owner.String())
	if err := durable.WriteFile(path, data, 0o600); err != nil {
		return nil, fmt.Errorf("crash journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("crash journal: %w", err)
	}
	j := &Journal{file: file, sums: newChecksum(data[:journalHeader])}
	for i := range slots {
		j.free = append(j.free, i)
	}
	return j, nil
}

// Freeze keeps the records of what is in flight, even if it ends: it is about to crash
// the process.
func (j *Journal) Freeze() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.frozen = true
}

// Close closes the file, and does not remove it.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	return j.file.Close()
}

// Begin records a response until Slot.End.
func (j *Journal) Begin(sequence uint64) *Slot {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.free) == 0 { // never: the caller limits the responses in flight
		return nil
	}
	last := len(j.free) - 1
	s := &Slot{journal: j, index: j.free[last], sequence: sequence}
	j.free = j.free[:last]
	s.write(sequence)
	return s
}

// Slot is the record of one delivery. A nil slot records nothing.
type Slot struct {
	journal  *Journal
	index    int
	sequence uint64
	ended    bool
}

// End removes the record.
func (s *Slot) End() {
	if s == nil {
		return
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	s.ended = true
	if !s.journal.frozen {
		s.write(0)
		s.journal.free = append(s.journal.free, s.index)
	}
}

// Computing records whether the model computes only this response. It may be called
// after End, if the delivery ended before its model call.
func (s *Slot) Computing(isolated bool) {
	if s == nil {
		return
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	switch {
	case s.ended || s.journal.frozen:
	case isolated:
		s.write(s.sequence | slotIsolated)
	default:
		s.write(s.sequence)
	}
}

// write needs the lock of the journal. The file has its final size, so that a write of
// a few bytes fails only if the device does; then a crash goes unrecorded.
func (s *Slot) write(value uint64) {
	var data [slotSize]byte
	if value != 0 {
		binary.LittleEndian.PutUint64(data[:], value)
		binary.LittleEndian.PutUint64(data[valueSize:], s.journal.sums.of(s.index, value))
	}
	_, _ = s.journal.file.WriteAt(data[:], journalHeader+int64(s.index)*slotSize)
}

// checksum computes the checksums of the slots of a file.
type checksum struct {
	table  *crc64.Table
	header uint64
}

func newChecksum(header []byte) checksum {
	table := crc64.MakeTable(crc64.ECMA)
	return checksum{table: table, header: crc64.Checksum(header, table)}
}

func (c checksum) of(index int, value uint64) uint64 {
	var data [2 * 8]byte
	binary.LittleEndian.PutUint64(data[:], uint64(index))
	binary.LittleEndian.PutUint64(data[8:], value)
	return crc64.Update(c.header, c.table, data[:])
}
