package queue

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/xid"
	"github.com/stretchr/testify/require"
)

func TestJournalTellsWhatWasInFlight(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in-flight")
	left, err := readJournal(path)
	require.NoError(t, err, "the first start")
	require.Empty(t, left.sequences)

	owner, created := xid.New(), time.Unix(1, 2)
	j, err := newJournal(path, owner, created, 3)
	require.NoError(t, err)
	read := func() map[uint64]bool {
		left, err := readJournal(path)
		require.NoError(t, err)
		require.Equal(t, owner.String(), left.owner)
		require.Equal(t, created.UnixNano(), left.created)
		return left.sequences
	}
	require.Empty(t, read())
	seven, eight := j.begin(7), j.begin(8)
	require.Equal(t, map[uint64]bool{7: false, 8: false}, read())
	seven.computing(true)
	require.Equal(t, map[uint64]bool{7: true, 8: false}, read())
	seven.computing(false)
	seven.end()
	seven.computing(true) // its model call outlived the delivery
	nine := j.begin(9)
	require.Equal(t, map[uint64]bool{8: false, 9: false}, read())
	require.NotNil(t, j.begin(10))
	require.Nil(t, j.begin(11), "no slot is left")
	nine.computing(true)
	j.freeze()
	nine.computing(false)
	nine.end()
	eight.end()
	require.Equal(t, map[uint64]bool{8: false, 9: true, 10: false}, read())
	require.NoError(t, j.close())

	j, err = newJournal(path, xid.New(), created, 3)
	require.NoError(t, err)
	defer j.close()
	left, err = readJournal(path)
	require.NoError(t, err)
	require.Empty(t, left.sequences, "the next process begins with an empty one")
}

func TestDamagedJournalIsEmpty(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in-flight")
	j, err := newJournal(path, xid.New(), time.Now(), 4)
	require.NoError(t, err)
	j.begin(7)
	require.NoError(t, j.close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for size := range whole {
		require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
		left, err := readJournal(path)
		require.NoError(t, err)
		require.LessOrEqual(t, len(left.sequences), 1)
	}
	require.NoError(t, os.WriteFile(path, make([]byte, len(whole)), 0o600))
	left, err := readJournal(path)
	require.NoError(t, err)
	require.Empty(t, left.sequences)
}

func TestWithoutJournal(t *testing.T) {
	t.Parallel()
	var j *crashJournal
	slot := j.begin(7)
	slot.computing(true)
	slot.end()
	j.freeze()
	require.NoError(t, j.close())
}
