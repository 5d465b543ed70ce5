package poison

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

// Suspects that complete while the list is written are removed by the next write, all of them.
func TestCompletedSuspectsShareAWrite(t *testing.T) {
	t.Parallel()
	const suspected = 100
	nc, jet := jstest.Connect(t, &server.Options{})
	_, err := jet.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "STATE"})
	require.NoError(t, err)
	stream, err := jet.Stream(t.Context(), "KV_STATE")
	require.NoError(t, err)
	shared := NewSuspects(js.NewKeyValue(nc, jet, stream, "", nil, zerolog.Nop()), time.Unix(1, 0))
	left := Crash{Owner: xid.New().String(), Created: shared.created, Sequences: map[uint64]bool{}}
	for i := range suspected {
		left.Sequences[uint64(i+1)] = false
	}
	require.NoError(t, shared.Record(t.Context(), left, 1))
	writes := func() uint64 {
		s, err := jet.Stream(t.Context(), "KV_STATE")
		require.NoError(t, err)
		return s.CachedInfo().State.LastSeq
	}
	recorded := writes()

	shared.updating.Lock() // a write is in flight
	var forgetting sync.WaitGroup
	for i := range suspected {
		forgetting.Go(func() {
			if err := shared.Forget(t.Context(), uint64(i+1)); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		return len(shared.completed) == suspected
	}, jstest.Timeout, time.Millisecond)
	shared.updating.Unlock()
	forgetting.Wait()
	list, _, err := shared.read(t.Context())
	require.NoError(t, err)
	require.Empty(t, list.Responses)
	require.EqualValues(t, 1, writes()-recorded)
}
