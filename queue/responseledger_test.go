package queue

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/rewardmodel"
)

// missing collects the responses that are reported as damaged or missing.
func missing(q *Queue) func() []uint64 {
	var mu sync.Mutex
	var sequences []uint64
	q.OnDamage(func(r DamagedRecord) {
		if r.Stream == StreamResponses {
			mu.Lock()
			defer mu.Unlock()
			sequences = append(sequences, r.Sequence)
		}
	})
	return func() []uint64 {
		mu.Lock()
		defer mu.Unlock()
		return append([]uint64{}, sequences...)
	}
}

// unavailable is a scorer that completes only some responses.
func unavailable(completes ...string) scorerFunc {
	return func(ctx context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
		for _, id := range completes {
			if item.ID == id {
				return good(ctx, item)
			}
		}
		return rewardmodel.Result{}, &rewardmodel.OverloadedError{RetryAfter: 10 * time.Millisecond}
	}
}

// Responses that vanish from a damaged file before they are scored are reported, those that
// have a result are not, and the others are scored.
func TestLostResponsesAreReported(t *testing.T) {
	t.Parallel()
	const responses, kept = 10, 4
	for name, tc := range map[string]struct {
		damage func(data []byte, at int) []byte // of the record after the kept ones
		index  bool                             // the server has index.db, which it lacks after kill -9
		lost   []uint64
	}{
		"a flipped bit":             {func(data []byte, at int) []byte { data[at+70] ^= 1; return data }, true, []uint64{5}},
		"a flipped bit, no index":   {func(data []byte, at int) []byte { data[at+70] ^= 1; return data }, false, []uint64{5, 6, 7, 8, 9}},
		"a flipped length":          {func(data []byte, at int) []byte { data[at+1] ^= 1; return data }, true, []uint64{5, 6, 7, 8, 9}},
		"cut after a record":        {func(data []byte, at int) []byte { return data[:at] }, true, []uint64{5, 6, 7, 8, 9}},
		"cut without its index":     {func(data []byte, at int) []byte { return data[:at] }, false, []uint64{5, 6, 7, 8, 9}},
		"cut in a record":           {func(data []byte, at int) []byte { return data[:at+30] }, true, []uint64{5, 6, 7, 8, 9}},
		"cut in a record, no index": {func(data []byte, at int) []byte { return data[:at+30] }, false, []uint64{5, 6, 7, 8, 9}},
		"nothing":                   {func(data []byte, _ int) []byte { return data }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t)
			q := startQueue(t, cfg, unavailable("seq-2", "seq-10"))
			for i := range responses {
				require.EqualValues(t, i+1, publish(t, q, "x", "", item("Hello.")).Sequence)
			}
			require.Eventually(t, func() bool { return jstest.Count(q.js, StreamRewards) == 2 }, jstest.Timeout, 5*time.Millisecond)
			closeQueue(t, q)
			dir := filepath.Join(cfg.Server.DataDir, "nats/jetstream/$G/streams", StreamResponses, "msgs")
			data, err := os.ReadFile(filepath.Join(dir, "1.blk"))
			require.NoError(t, err)
			at := 0
			// A record begins with its length, whose highest bit is for headers, and its sequence.
			// Among them are those of removed responses.
			for binary.LittleEndian.Uint64(data[at+4:]) != kept+1 {
				at += int(binary.LittleEndian.Uint32(data[at:]) &^ (1 << 31))
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "1.blk"), tc.damage(data, at), 0o600))
			if !tc.index {
				require.NoError(t, os.Remove(filepath.Join(dir, "index.db")))
			}

			q = openQueue(t, cfg)
			reported := missing(q)
			require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
			require.Eventually(t, func() bool { return jstest.Count(q.js, StreamRewards) == responses-len(tc.lost) }, jstest.Timeout, 5*time.Millisecond)
			require.Eventually(t, func() bool { // the server may find the damage when it delivers, and a record that it cannot read is looked for every 5 s
				return q.worker.books.balance(t.Context()) == nil && len(reported()) >= len(tc.lost)
			}, jstest.Timeout, 100*time.Millisecond)
			require.ElementsMatch(t, tc.lost, reported())
			if len(tc.lost) == 1 { // the server keeps what it cannot read, and its stream is never empty
				return
			}

			// What is new is not taken for what was lost or completed, although the server may use
			// their sequences again, and is scored.
			for range responses {
				publish(t, q, "x", "", item("Hello."))
			}
			awaitEmpty(t, q)
			require.NoError(t, q.worker.books.balance(t.Context()))
			closeQueue(t, q)
			q = openQueue(t, cfg)
			reported = missing(q)
			require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
			require.NoError(t, q.worker.books.balance(t.Context()))
			require.Empty(t, reported())
			require.Equal(t, 2*responses-len(tc.lost), jstest.Count(q.js, StreamRewards))
		})
	}
}

// Nothing is reported of responses that other processes complete, or this one before it dies.
func TestLedgerOfOtherProcesses(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := startQueue(t, cfg, unavailable())
	reported := missing(q)
	other := replica(t, q, cfg)
	require.NoError(t, other.Start(t.Context(), scorerFunc(good)))
	require.Nil(t, other.worker.books, "its server is in another process")
	for i := range 100 {
		publish(t, q, "x", fmt.Sprint(i), item("Hello."))
		if i%10 == 0 {
			require.NoError(t, q.worker.books.balance(t.Context()))
		}
	}
	publish(t, q, "x", "dead", `{"response":7}`)
	awaitEmpty(t, q)
	require.NoError(t, q.worker.books.balance(t.Context()))
	// Responses that have results: their acknowledgements were lost.
	last, revision, err := js.Load[ledger](t.Context(), q.worker.books.state, keyLedger)
	require.NoError(t, err)
	require.EqualValues(t, 101, last.Last)
	require.Empty(t, last.Waiting)
	last.Waiting = []span{{1, 101}}
	_, err = js.Store(t.Context(), q.worker.books.state, keyLedger, last, revision)
	require.NoError(t, err)
	require.NoError(t, q.worker.books.balance(t.Context()))
	require.Empty(t, reported())

	// An operator's removal is a loss too.
	closeQueue(t, other)
	publish(t, q, "x", "removed", item("Hello."))
	require.NoError(t, q.worker.books.balance(t.Context()))
	stream, err := q.js.Stream(t.Context(), StreamResponses)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	require.NoError(t, q.worker.books.balance(t.Context()))
	require.Equal(t, []uint64{102}, reported())

	// Another stream has other sequences.
	_, err = q.js.PublishMsg(t.Context(), &nats.Msg{Subject: SubjectResponses + ".x", Data: []byte(item("Hello."))})
	require.NoError(t, err)
	require.NoError(t, q.worker.books.balance(t.Context()))
	config := stream.CachedInfo().Config
	require.NoError(t, q.js.DeleteStream(t.Context(), StreamResponses))
	_, err = q.js.CreateStream(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, q.worker.books.balance(t.Context()))
	require.Equal(t, []uint64{102}, reported())
}

// A response that is published again, when the server no longer knows its id, gets no second reward. It is not taken for
// lost by the next process if this one dies immediately after it has acknowledged it.
func TestLedgerOfResponsesPublishedAgain(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := startQueue(t, cfg, scorerFunc(good))
	const responses = 20
	publishAll := func() {
		for i := range responses {
			publish(t, q, "x", fmt.Sprint(i), item("Hello."))
		}
		awaitEmpty(t, q)
	}
	publishAll()
	closeQueue(t, q)
	q = startQueue(t, cfg, scorerFunc(good))
	publishAll()
	require.Equal(t, responses, jstest.Count(q.js, StreamRewards))
	last, _, err := js.Load[ledger](t.Context(), q.worker.books.state, keyLedger)
	require.NoError(t, err)
	require.EqualValues(t, 2*responses, last.Last)
	require.Empty(t, last.Waiting)
}

func TestSpansContain(t *testing.T) {
	spans := []span{{2, 2}, {4, 6}}
	for sequence, want := range []bool{false, false, true, false, true, true, true, false} {
		require.Equal(t, want, contains(spans, uint64(sequence)), sequence)
	}
	require.False(t, contains(nil, 1))
}

func TestRemoveFromSpans(t *testing.T) {
	spans := []span{{2, 2}, {4, 6}}
	for sequence, want := range map[uint64][]span{
		1: {{2, 2}, {4, 6}}, 2: {{4, 6}}, 3: {{2, 2}, {4, 6}}, 4: {{2, 2}, {5, 6}}, 5: {{2, 2}, {4, 4}, {6, 6}}, 6: {{2, 2}, {4, 5}}, 7: {{2, 2}, {4, 6}},
	} {
		require.Equal(t, want, remove(slices.Clone(spans), sequence), sequence)
	}
}
