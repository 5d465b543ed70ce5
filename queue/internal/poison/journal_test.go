package poison

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/xid"
	"github.com/stretchr/testify/require"
)

func TestJournalRecordsWhatWasInFlight(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in-flight")
	left, err := ReadJournal(path)
	require.NoError(t, err, "the first start")
	require.Empty(t, left.Sequences)

	owner, created := xid.New(), time.Unix(1, 2)
	j, err := NewJournal(path, owner, created, 3)
	require.NoError(t, err)
	read := func() map[uint64]bool {
		left, err := ReadJournal(path)
		require.NoError(t, err)
		require.Equal(t, owner.String(), left.Owner)
		require.Equal(t, created.UnixNano(), left.Created)
		return left.Sequences
	}
	require.Empty(t, read())
	seven, eight := j.Begin(7), j.Begin(8)
	require.Equal(t, map[uint64]bool{7: false, 8: false}, read())
	seven.Computing(true)
	require.Equal(t, map[uint64]bool{7: true, 8: false}, read())
	seven.Computing(false)
	seven.End()
	seven.Computing(true) // its model call outlived the delivery
	nine := j.Begin(9)
	require.Equal(t, map[uint64]bool{8: false, 9: false}, read())
	require.NotNil(t, j.Begin(10))
	require.Nil(t, j.Begin(11), "no slot is left")
	nine.Computing(true)
	j.Freeze()
	nine.Computing(false)
	nine.End()
	eight.End()
	require.Equal(t, map[uint64]bool{8: false, 9: true, 10: false}, read())
	require.NoError(t, j.Close())

	j, err = NewJournal(path, xid.New(), created, 3)
	require.NoError(t, err)
	defer j.Close()
	left, err = ReadJournal(path)
	require.NoError(t, err)
	require.Empty(t, left.Sequences, "the next process begins with an empty one")
}

func TestDamagedJournalIsEmpty(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in-flight")
	j, err := NewJournal(path, xid.New(), time.Now(), 4)
	require.NoError(t, err)
	j.Begin(7)
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for size := range whole {
		require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
		left, err := ReadJournal(path)
		require.NoError(t, err)
		require.LessOrEqual(t, len(left.Sequences), 1)
	}
	require.NoError(t, os.WriteFile(path, make([]byte, len(whole)), 0o600))
	left, err := ReadJournal(path)
	require.NoError(t, err)
	require.Empty(t, left.Sequences)
}

// A flipped bit must not accuse a response: neither one that was not in flight, nor one
// that was, but not alone.
func TestFlippedBitOfTheJournalAccusesNobody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in-flight")
	owner, created := xid.New(), time.Unix(1_800_000_000, 0)
	j, err := NewJournal(path, owner, created, 3)
	require.NoError(t, err)
	j.Begin(7)
	j.Begin(8).Computing(true)
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	written := map[uint64]bool{7: false, 8: true}
	for bit := range 8 * len(whole) {
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		left, err := ReadJournal(path)
		require.NoError(t, err)
		for sequence, alone := range left.Sequences {
			recorded, ok := written[sequence]
			require.True(t, ok, "bit %d: response %d was not in flight", bit, sequence)
			require.Equal(t, recorded, alone, "bit %d: response %d", bit, sequence)
		}
		if len(left.Sequences) > 0 {
			require.Equal(t, owner.String(), left.Owner, "bit %d", bit)
			require.Equal(t, created.UnixNano(), left.Created, "bit %d", bit)
		}
	}
}

// Slots that were written to the place of another are not believed either.
func TestMisplacedSlotOfTheJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in-flight")
	j, err := NewJournal(path, xid.New(), time.Now(), 2)
	require.NoError(t, err)
	j.Begin(7)
	require.NoError(t, j.Close())
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	first, second := file[journalHeader:][:slotSize], file[journalHeader+slotSize:]
	copy(first, second)
	clear(second)
	require.NoError(t, os.WriteFile(path, file, 0o600))
	left, err := ReadJournal(path)
	require.NoError(t, err)
	require.Empty(t, left.Sequences)
}

// Files of earlier releases have slots of 8 bytes without a checksum.
func TestJournalOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in-flight")
	file := binary.LittleEndian.AppendUint64([]byte("assayj1\n"), uint64(time.Now().UnixNano()))
	file = append(file, xid.New().String()...)
	for sequence := range uint64(256) {
		file = binary.LittleEndian.AppendUint64(file, sequence|slotIsolated)
	}
	require.NoError(t, os.WriteFile(path, file, 0o600))
	left, err := ReadJournal(path)
	require.NoError(t, err)
	require.Zero(t, left)
	j, err := NewJournal(path, xid.New(), time.Now(), 2)
	require.NoError(t, err)
	defer j.Close()
	j.Begin(7)
	left, err = ReadJournal(path)
	require.NoError(t, err)
	require.Equal(t, map[uint64]bool{7: false}, left.Sequences)
}

func TestWithoutJournal(t *testing.T) {
	t.Parallel()
	var j *Journal
	slot := j.Begin(7)
	slot.Computing(true)
	slot.End()
	j.Freeze()
	require.NoError(t, j.Close())
}
