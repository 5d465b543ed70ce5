package labels_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
)

// feedbackBlock is the file of the labels in a data directory.
const feedbackBlock = "nats/jetstream/$G/streams/ASSAY_FEEDBACK/msgs/1.blk"

// storedRecord returns the nth record of a block, from 0.
func storedRecord(block []byte, n int) []byte {
	length := func() uint32 { return binary.LittleEndian.Uint32(block) &^ (1 << 31) } // the highest bit is for headers
	for range n {
		block = block[length():]
	}
	return block[:length()]
}

// A response whose label is damaged can be labeled again, and the new label stays, whichever
// bit is flipped and however the server stopped. The labels around it are as they were, and
// what the damaged one had replaced does not come back.
func TestLabelOnADamagedRecord(t *testing.T) {
	t.Parallel()
	const low, high = 1, 1 << 7
	for name, flip := range map[string]struct {
		at  func(record []byte) int
		bit byte
	}{
		"text":             {func(r []byte) int { return len(r) - 20 }, low},
		"checksum":         {func(r []byte) int { return len(r) - 1 }, low},
		"time":             {func([]byte) int { return 14 }, low},
		"sequence":         {func([]byte) int { return 4 }, low},
		"kind":             {func([]byte) int { return 11 }, high},
		"subject":          {func([]byte) int { return 22 + 30 }, low},
		"subject length":   {func([]byte) int { return 20 }, low},
		"headers flag":     {func([]byte) int { return 3 }, high},
		"label":            {func(r []byte) int { return bytes.Index(r, []byte("Assay-Label")) + 15 }, low},
		"record header":    {func(r []byte) int { return bytes.Index(r, []byte("Assay-Record: ")) + 40 }, low},
		"name of a header": {func(r []byte) int { return bytes.Index(r, []byte("Assay-Record: ")) + 4 }, low},
	} {
		if testing.Short() && name != "text" {
			continue
		}
		for stop, state := range map[string]bool{"stopped": true, "killed": false} { // with the state of the server
			t.Run(name+" "+stop, func(t *testing.T) {
				t.Parallel()
				cfg := queuetest.Config(t)
				q := queuetest.Open(t, cfg)
				labelstest.Accepts(t, q.Labels(), 3, 0, labelstest.Some(0, 3)...)
				labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("again", bag.Compliant))
				labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("again", bag.Violation)) // replaces it
				labelstest.Accepts(t, q.Labels(), 3, 0, labelstest.Some(3, 3)...)
				others := labelstest.Records(t, q.Labels())
				delete(others, "again/")
				queuetest.Close(t, q)
				path := filepath.Join(cfg.Server.DataDir, feedbackBlock)
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				record := storedRecord(data, 4)
				record[flip.at(record)] ^= flip.bit
				require.NoError(t, os.WriteFile(path, data, 0o600))
				if !state {
					require.NoError(t, os.Remove(filepath.Join(filepath.Dir(path), "index.db")))
				}

				q = queuetest.Open(t, cfg)
				require.Equal(t, others, labelstest.Records(t, q.Labels()))
				v, err := q.Labels().Verify(jstest.Context(t))
				require.NoError(t, err)
				require.Equal(t, 1, v.DamagedCount, "%+v", v)
				require.EqualValues(t, 5, v.Damaged[0].Sequence)
				labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("again", bag.Compliant))
				v, err = q.Labels().Verify(jstest.Context(t))
				require.NoError(t, err)
				require.Zero(t, v.DamagedCount, "%+v", v)
				stored := labelstest.Records(t, q.Labels())
				require.Len(t, stored, 7)
				require.Equal(t, bag.Compliant, stored["again/"].Record.Bag.Label)
				queuetest.Close(t, q)
				q = queuetest.Open(t, cfg)
				require.Equal(t, stored, labelstest.Records(t, q.Labels()))
			})
		}
	}
}

// The last record of the file has none after it that proves its length, so it is erased only
// when another label follows: one that replaces it, or another one and a look at it.
func TestLastLabelIsDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("the server starts again, which takes seconds")
	}
	t.Parallel()
	for name, notice := range map[string]func(*testing.T, *labels.Log){
		"replaced": func(*testing.T, *labels.Log) {},
		"read": func(t *testing.T, l *labels.Log) {
			labelstest.Accepts(t, l, 1, 0, labelstest.Labeled("r9", bag.Violation))
			v, err := l.Verify(jstest.Context(t))
			require.NoError(t, err)
			require.Equal(t, 1, v.DamagedCount, "%+v", v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := queuetest.Config(t)
			q := queuetest.Open(t, cfg)
			labelstest.Accepts(t, q.Labels(), 3, 0, labelstest.Some(0, 3)...)
			labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("again", bag.Violation))
			queuetest.Close(t, q)
			path := filepath.Join(cfg.Server.DataDir, feedbackBlock)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			record := storedRecord(data, 3)
			record[len(record)-20] ^= 1
			require.NoError(t, os.WriteFile(path, data, 0o600))

			q = queuetest.Open(t, cfg)
			require.Len(t, labelstest.Records(t, q.Labels()), 3)
			notice(t, q.Labels())
			require.Eventually(t, func() bool { // the server is stopped in between
				_, err := q.Labels().Append(jstest.Context(t), labelstest.BatchOf(labelstest.Labeled("again", bag.Compliant)), "ann")
				return err == nil
			}, jstest.Timeout, 10*time.Millisecond)
			require.Eventually(t, func() bool { // if it was stored before
				v, err := q.Labels().Verify(jstest.Context(t))
				return err == nil && v.DamagedCount == 0
			}, jstest.Timeout, 10*time.Millisecond)
			stored := labelstest.Records(t, q.Labels())
			require.Equal(t, bag.Compliant, stored["again/"].Record.Bag.Label)
			queuetest.Close(t, q)
			q = queuetest.Open(t, cfg)
			require.Equal(t, stored, labelstest.Records(t, q.Labels()))
		})
	}
}
