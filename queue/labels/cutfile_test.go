package labels_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
)

// What docs/guarantees.md says of a file that is cut off while the server is stopped:
// nats-server reports the loss if it finds a part of a record, and not if whole records
// are missing. If this fails because it reports more, change the documents.
func TestFileThatIsCutOff(t *testing.T) {
	t.Parallel()
	const labels, kept = 10, 6
	for name, tc := range map[string]struct {
		inRecord, index, reported bool
	}{
		"in a record":                       {true, true, true},
		"in a record, without its index":    {true, false, true},
		"after a record":                    {false, true, false},
		"after a record, without its index": {false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := queuetest.Config(t)
			q := queuetest.Open(t, cfg)
			labelstest.Accepts(t, q.Labels(), labels, 0, labelstest.Some(0, labels)...)
			queuetest.Close(t, q)
			dir := filepath.Join(cfg.Server.DataDir, "nats/jetstream/$G/streams/ASSAY_FEEDBACK/msgs")
			data, err := os.ReadFile(filepath.Join(dir, "1.blk"))
			require.NoError(t, err)
			end := 0
			for range kept { // a record begins with its length; the highest bit is for headers
				end += int(binary.LittleEndian.Uint32(data[end:]) &^ (1 << 31))
			}
			if tc.inRecord {
				end += 30
			}
			require.NoError(t, os.Truncate(filepath.Join(dir, "1.blk"), int64(end)))
			if !tc.index {
				if err := os.Remove(filepath.Join(dir, "index.db")); err != nil {
					require.True(t, errors.Is(err, fs.ErrNotExist), "%v", err)
				}
			}

			q = queuetest.Open(t, cfg)
			labelstest.CaughtUp(t, q.Labels())
			v, err := q.Labels().Verify(t.Context())
			require.NoError(t, err)
			require.Equal(t, kept, v.Labels)
			require.Equal(t, tc.reported, v.DamagedCount > 0, "%+v", v)
		})
	}
}
