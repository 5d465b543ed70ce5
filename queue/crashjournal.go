package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/xid"
)

// A journal file is a header and one slot for each delivery in flight:
//
//	magic    8 bytes
//	created  8 bytes, when the stream of responses was created, Unix nanoseconds
//	owner   20 bytes, the process that wrote the file
//	slots    8 bytes each: the sequence of the response, 0 for none; the highest
//	         bit is set while the model computes it alone
const (
	journalMagic  = "assayj1\n"
	journalHeader = 8 + 8 + ownerSize
	ownerSize     = 20
	slotSize      = 8
	slotAlone     = uint64(1) << 63
)

// crashJournal names the responses that a process works on in a file, so that
// the next process that uses the file knows what was in flight when this one
// died: the server cannot tell a crash from a response that was negatively
// acknowledged, and an embedded one dies before it has written what it delivered.
// Writes are not flushed to the disk. They survive the death of the process, and
// the loss of power is not the fault of a response.
//
// A nil journal records nothing.
type crashJournal struct {
	file *os.File

	mu     sync.Mutex
	free   []int
	frozen bool // what is in flight stays recorded
}

// crashed is what a journal says of the process that wrote it.
type crashed struct {
	owner     string
	created   int64
	sequences map[uint64]bool // true: its model was computing this response alone
}

// readJournal returns what the last process left in flight. A file that is
// missing or was cut short counts as empty.
func readJournal(path string) (left crashed, err error) {
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
	left.created = int64(binary.LittleEndian.Uint64(data[8:]))
	left.owner = string(data[16:journalHeader])
	left.sequences = map[uint64]bool{}
	for slots := data[journalHeader:]; len(slots) >= slotSize; slots = slots[slotSize:] {
		if value := binary.LittleEndian.Uint64(slots); value != 0 {
			left.sequences[value&^slotAlone] = value&slotAlone != 0
		}
	}
	return left, nil
}

// newJournal replaces the file at path by an empty journal of a new owner, with
// as many slots as deliveries can be in flight.
func newJournal(path string, owner xid.ID, created time.Time, slots int) (*crashJournal, error) {
	data := make([]byte, journalHeader+slots*slotSize) // the disk has room for it from now on
	copy(data, journalMagic)
	binary.LittleEndian.PutUint64(data[8:], uint64(created.UnixNano()))
	copy(data[16:], owner.String())
	next := path + ".new"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return nil, fmt.Errorf("crash journal: %w", err)
	}
	file, err := os.OpenFile(next, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("crash journal: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return nil, errors.Join(fmt.Errorf("crash journal: %w", err), file.Close())
	}
	j := &crashJournal{file: file}
	for i := range slots {
		j.free = append(j.free, i)
	}
	return j, nil
}

// freeze keeps what is in flight recorded although it ends: the process is about
// to die of it.
func (j *crashJournal) freeze() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.frozen = true
}

func (j *crashJournal) close() error {
	if j == nil {
		return nil
	}
	return j.file.Close()
}

// begin records a response until end.
func (j *crashJournal) begin(sequence uint64) *journalSlot {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.free) == 0 { // never: the worker bounds what is in flight
		return nil
	}
	last := len(j.free) - 1
	s := &journalSlot{journal: j, index: j.free[last], sequence: sequence}
	j.free = j.free[:last]
	s.write(sequence)
	return s
}

// journalSlot is the record of one delivery. A nil one records nothing.
type journalSlot struct {
	journal  *crashJournal
	index    int
	sequence uint64
	ended    bool
}

func (s *journalSlot) end() {
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

// computing records whether the model computes the response alone. It may be
// called after end, when the delivery ended before its model call.
func (s *journalSlot) computing(alone bool) {
	if s == nil {
		return
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	switch {
	case s.ended || s.journal.frozen:
	case alone:
		s.write(s.sequence | slotAlone)
	default:
		s.write(s.sequence)
	}
}

// write needs the journal's lock. The file has its size already, so that a write
// of a few bytes fails only with the device; then a crash goes unrecorded.
func (s *journalSlot) write(value uint64) {
	var data [slotSize]byte
	binary.LittleEndian.PutUint64(data[:], value)
	_, _ = s.journal.file.WriteAt(data[:], journalHeader+int64(s.index)*slotSize)
}
