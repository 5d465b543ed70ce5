package labels_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
)

// A file that lost its end while the server was stopped is reported: by nats-server if it
// finds a part of a record, and otherwise by the extent of the stream.
func TestFileThatIsCutOff(t *testing.T) {
	t.Parallel()
	const labels, kept = 10, 6
	for name, tc := range map[string]struct {
		inRecord, index, corrected bool
		reason                     string
	}{
		"in a record":                       {true, true, false, "the NATS server has lost it"},
		"in a record, without its index":    {true, false, false, "the NATS server has lost it"},
		"after a record":                    {false, true, false, "had labels of 10 responses, and has 6"},
		"after a record, without its index": {false, false, false, "had labels of 10 responses, and has 6"},
		"after a record, of corrections":    {false, false, true, "had labels of 10 responses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := queuetest.Config(t)
			q := queuetest.Open(t, cfg)
			labelstest.Accepts(t, q.Labels(), labels, 0, labelstest.Some(0, labels)...)
			if tc.corrected {
				labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("r1", bag.Violation))
			}
			v, err := q.Labels().Verify(t.Context())
			require.NoError(t, err)
			require.Zero(t, v.DamagedCount)
			queuetest.Close(t, q)
			partial := 0
			if tc.inRecord {
				partial = 30
			}
			cutOff(t, cfg, kept, partial)
			if !tc.index {
				removeIndex(t, cfg)
			}

			for range 2 { // the report stays
				q = queuetest.Open(t, cfg)
				labelstest.CaughtUp(t, q.Labels())
				v, err = q.Labels().Verify(t.Context())
				require.NoError(t, err)
				require.LessOrEqual(t, v.Labels, kept)
				require.Positive(t, v.DamagedCount, "%+v", v)
				if !tc.inRecord { // after the restart, nats-server has forgotten it
					require.Contains(t, v.Damaged[0].Reason, tc.reason)
				}
				queuetest.Close(t, q)
				tc.inRecord = false
				if tc.reason == "the NATS server has lost it" {
					tc.reason = "had labels of 10 responses"
				}
			}
			q = queuetest.Open(t, cfg)
			labelstest.Append(t, q.Labels(), labelstest.Some(0, labels+5)...) // as an import does, and then new ones
			v, err = q.Labels().Verify(t.Context())
			require.NoError(t, err)
			require.Zero(t, v.DamagedCount, "%+v", v)
		})
	}
}

// Erasures, withdrawals and corrections are no loss, also at two processes.
func TestExtentOfWhatClientsRemove(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	other := queuetest.Replica(t, q, cfg)
	labelstest.Accepts(t, q.Labels(), 9, 0, labelstest.Some(0, 9)...)
	for i, l := range []*labels.Log{q.Labels(), other.Labels()} {
		_, err := l.Erase(t.Context(), fmt.Sprint("r", i))
		require.NoError(t, err)
		_, err = l.Withdraw(t.Context(), fmt.Sprint("r", 2+i), "", "")
		require.NoError(t, err)
		labelstest.Accepts(t, l, 1, 0, labelstest.Labeled(fmt.Sprint("r", 4+i), bag.Violation))
		v, err := l.Verify(t.Context())
		require.NoError(t, err)
		require.Zero(t, v.DamagedCount, "%+v", v)
	}
	queuetest.Close(t, other)
	queuetest.Close(t, q)
	q = queuetest.Open(t, cfg)
	v, err := q.Labels().Verify(t.Context())
	require.NoError(t, err)
	require.Zero(t, v.DamagedCount, "%+v", v)
}

// A label that the server lists, and has not acknowledged, may be lost without a report: a power failure takes what was not
// synced.
func TestExtentOfWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	labelstest.Accepts(t, q.Labels(), 5, 0, labelstest.Some(0, 5)...)
	v, err := q.Labels().Verify(t.Context())
	require.NoError(t, err)
	require.Zero(t, v.DamagedCount, "%+v", v)
	ctx, cancel := context.WithCancel(t.Context())
	publish := q.Labels().Publish()
	q.Labels().SetPublish(func(_ context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		defer cancel()
		_, _ = publish(t.Context(), msg, opts...) // the first attempt stores it
		return nil, context.Canceled
	})
	_, err = q.Labels().Append(ctx, labelstest.BatchOf(labelstest.Labeled("lost", bag.Violation)), "ann")
	require.Error(t, err)
	v, err = q.Labels().Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 6, v.Labels)
	queuetest.Close(t, q)
	cutOff(t, cfg, 5, 0)
	removeIndex(t, cfg)
	q = queuetest.Open(t, cfg)
	v, err = q.Labels().Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, v.Labels)
	require.Zero(t, v.DamagedCount, "%+v", v)
}

// messages is the directory of the files of the stream of labels.
func messages(cfg queue.Config) string {
	return filepath.Join(cfg.Server.DataDir, "nats/jetstream/$G/streams/ASSAY_FEEDBACK/msgs")
}

// cutOff keeps the first records of the first file, and some bytes of the next one.
func cutOff(t *testing.T, cfg queue.Config, records, partial int) {
	t.Helper()
	file := filepath.Join(messages(cfg), "1.blk")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	end := partial
	for at := 0; records > 0; records-- { // a record begins with its length; the highest bit is for headers
		length := int(binary.LittleEndian.Uint32(data[at:]) &^ (1 << 31))
		at, end = at+length, end+length
	}
	require.NoError(t, os.Truncate(file, int64(end)))
}

// removeIndex removes what a killed server may lack.
func removeIndex(t *testing.T, cfg queue.Config) {
	t.Helper()
	if err := os.Remove(filepath.Join(messages(cfg), "index.db")); err != nil {
		require.True(t, errors.Is(err, fs.ErrNotExist), "%v", err)
	}
}
