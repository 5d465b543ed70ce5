package queue

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/rewardmodel"
)

// Rewards and dead letters have a checksum that is right once they are stored, whatever
// the ids and subjects of the responses are, and the sequence of the response.
func TestResultsHaveChecksums(t *testing.T) {
	t.Parallel()
	q := startQueue(t, testConfig(t), scorerFunc(good))
	for _, tail := range []string{"a", "ünï-cödé.$odd.{x}", "\x01.b", "b.\u00a0c"} {
		for _, id := range []string{"1", "", " padded ", "tab\tand  spaces\t", "ünï", "\xff", "semi: colon", strings.Repeat("x", 500)} {
			name := id
			if id != "" {
				name = tail + id // unique
			}
			publish(t, q, tail, name, item("Hello."))
			if id != "" {
				name += "!"
			}
			publish(t, q, tail, name, `{"response":7}`)
		}
	}
	awaitEmpty(t, q)
	for _, stream := range []string{StreamRewards, StreamDead} {
		sequences := map[string]bool{}
		for _, msg := range jstest.Messages(t, q.js, stream) {
			sealed, err := js.Verify(msg.Subject, msg.Header, msg.Data)
			require.NoError(t, err, "%q", msg.Header)
			require.True(t, sealed)
			require.NoError(t, VerifyChecksum(msg.Subject, msg.Header, msg.Data))
			sequences[msg.Header.Get(HeaderSequence)] = true
			msg.Data[len(msg.Data)/2] ^= 4
			require.ErrorIs(t, VerifyChecksum(msg.Subject, msg.Header, msg.Data), ErrDamaged)
		}
		require.Len(t, sequences, 32, stream)
	}
}

// A response whose stored reward is damaged is scored again: as soon as the server no longer
// takes the new reward for a duplicate of that one.
func TestDamagedRewardIsStoredAgain(t *testing.T) {
	t.Parallel()
	const window = 2 * time.Second
	cfg := testConfig(t)
	cfg.Streams.DuplicateWindow = window
	cfg.Worker.AckWait = time.Second
	q := openQueue(t, cfg)
	var reported atomic.Int64
	q.OnDamage(func(r DamagedRecord) {
		if r.Stream == StreamRewards && r.Sequence == 1 {
			reported.Add(1)
		}
	})
	// As a process leaves it that died before it acknowledged the response.
	publish(t, q, "x", "1", item("Hello."))
	damaged := &nats.Msg{Subject: SubjectRewards + ".x", Data: []byte(`{"id":"1","reward":0.5}`), Header: nats.Header{jetstream.MsgIDHeader: {"x 1"}}}
	js.Seal(damaged.Subject, damaged.Header, damaged.Data)
	damaged.Data[len(damaged.Data)-2] ^= 1
	_, err := q.js.PublishMsg(t.Context(), damaged)
	require.NoError(t, err)

	var scored atomic.Int64
	require.NoError(t, q.Start(t.Context(), scorerFunc(func(ctx context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
		scored.Add(1)
		return good(ctx, item)
	})))
	awaitEmpty(t, q)
	rewards := jstest.Messages(t, q.js, StreamRewards)
	require.Len(t, rewards, 2)
	require.ErrorIs(t, VerifyChecksum(rewards[0].Subject, rewards[0].Header, rewards[0].Data), ErrDamaged)
	require.NoError(t, VerifyChecksum(rewards[1].Subject, rewards[1].Header, rewards[1].Data))
	require.Greater(t, scored.Load(), int64(1), "the first attempt was a duplicate of the damaged reward")
	require.EqualValues(t, 1, reported.Load())
}
