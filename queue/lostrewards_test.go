package queue_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
)

// Rewards and dead letters that the server says it has lost are reported at the start.
func TestLostRewardsAreReported(t *testing.T) {
	t.Parallel()
	for stream, subject := range map[string]string{queue.StreamRewards: queue.SubjectRewards + ".x", queue.StreamDead: queue.SubjectDead + ".model"} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			cfg := queuetest.Config(t)
			q := queuetest.Open(t, cfg)
			js, err := jetstream.New(q.Conn())
			require.NoError(t, err)
			for range 10 {
				_, err := js.Publish(t.Context(), subject, []byte(`{"reward":0.5}`))
				require.NoError(t, err)
			}
			queuetest.Close(t, q)
			file := filepath.Join(cfg.Server.DataDir, "nats/jetstream/$G/streams", stream, "msgs/1.blk")
			stored, err := os.Stat(file)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(file, stored.Size()-10))

			var reported []queue.DamagedRecord
			queuetest.Open(t, cfg).OnDamage(func(r queue.DamagedRecord) { reported = append(reported, r) })
			require.NotEmpty(t, reported)
			for _, r := range reported {
				require.Equal(t, stream, r.Stream)
			}
		})
	}
}
