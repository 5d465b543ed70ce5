package queue

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/xid"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/queue/internal/poison"
	"assay/queue/registry"
	"assay/rewardmodel"
)

// writeCrash writes the journal of a process that died with these responses in flight; isolated is the one that its
// model computed in isolation, 0 for none.
func writeCrash(t *testing.T, q *Queue, path string, owner xid.ID, isolated uint64, sequences ...uint64) {
	t.Helper()
	j, err := poison.NewJournal(path, owner, streamCreated(t, q), max(len(sequences), 256))
	require.NoError(t, err)
	for _, sequence := range sequences {
		j.Begin(sequence).Computing(sequence == isolated)
	}
	require.NoError(t, j.Close())
}

func streamCreated(t *testing.T, q *Queue) time.Time {
	t.Helper()
	s, err := q.js.Stream(t.Context(), StreamResponses)
	require.NoError(t, err)
	return s.CachedInfo().Created
}

// restart records the death of a process, like its successor, and stops.
func restart(t *testing.T, q *Queue) {
	t.Helper()
	w, err := newWorker(q.nc, q.js, scorerFunc(good), q.cfg.Worker, q.log, q.metrics)
	require.NoError(t, err)
	_, err = w.attach(t.Context(), false)
	require.NoError(t, err)
	require.NoError(t, w.drain(t.Context()))
}

// isolationCounter is a scorer that counts the responses scored in isolation, and how many of them concurrently.
type isolationCounter struct {
	scorerFunc
	now, most, isolated atomic.Int32
}

func (w *isolationCounter) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	if req.Exclusive != nil {
		w.isolated.Add(1)
		w.most.Store(max(w.most.Load(), w.now.Add(1)))
		defer w.now.Add(-1)
		req.Exclusive(true)
		defer req.Exclusive(false)
	}
	return w.scorerFunc.Score(ctx, req)
}

// Responses that were in flight at several deaths of a process, such as kill -9, are scored one at a time and get their
// rewards.
func TestInnocentSuspectsGetTheirRewards(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Worker.Journal = filepath.Join(t.TempDir(), "in-flight")
	q := openQueue(t, cfg)
	const responses = 20
	var all []uint64
	for i := range responses {
		all = append(all, publish(t, q, "x", fmt.Sprint(i), item("text")).Sequence)
	}
	for range poison.IsolateAfter {
		writeCrash(t, q, cfg.Worker.Journal, xid.New(), 0, all...)
		restart(t, q)
	}
	publish(t, q, "x", "new", item("text"))
	scorer := &isolationCounter{scorerFunc: good}
	require.NoError(t, q.Start(t.Context(), scorer))
	awaitEmpty(t, q)
	require.Equal(t, responses+1, jstest.Count(q.js, StreamRewards))
	require.Zero(t, jstest.Count(q.js, StreamDead))
	require.EqualValues(t, responses, scorer.isolated.Load(), "each suspect, and no other")
	require.EqualValues(t, 1, scorer.most.Load(), "one suspect at a time")
	requireNoSuspects(t, q)
	left, err := poison.ReadJournal(cfg.Worker.Journal)
	require.NoError(t, err)
	require.Empty(t, left.Sequences)
}

// suspectsOf returns the list that the replicas share.
func suspectsOf(t *testing.T, q *Queue) map[uint64]poison.Suspect {
	t.Helper()
	stream, err := q.js.Stream(t.Context(), registry.StreamState)
	require.NoError(t, err)
	list, _, err := js.Load[struct {
		Responses map[uint64]poison.Suspect `json:"responses"`
	}](t.Context(), js.NewKeyValue(q.nc, q.js, stream, "", nil, q.log), "suspects")
	require.NoError(t, err)
	return list.Responses
}

// requireNoSuspects waits until the list is empty: a response is removed after it completes.
func requireNoSuspects(t *testing.T, q *Queue) {
	t.Helper()
	require.Eventually(t, func() bool { return len(suspectsOf(t, q)) == 0 }, jstest.Timeout, 5*time.Millisecond)
}

func TestResponseThatCrashesItsProcessIsDeadLettered(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		shared   int // deaths of unknown cause
		isolated bool
		dead     bool
	}{
		{"in flight with others", poison.IsolateAfter - 1, false, false},
		{"due for isolation", poison.IsolateAfter, false, false},
		{"a process died while it was isolated", poison.IsolateAfter, true, true},
		{"processes died before its model call", poison.FatalAfter, false, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Worker.Journal = filepath.Join(t.TempDir(), "in-flight")
			q := openQueue(t, cfg)
			deadly := publish(t, q, "job.7", "poison", item("poison")).Sequence
			innocent := publish(t, q, "job.7", "innocent", item("text")).Sequence
			for range tc.shared {
				writeCrash(t, q, cfg.Worker.Journal, xid.New(), 0, deadly)
				restart(t, q)
			}
			deaths := tc.shared
			if tc.isolated {
				writeCrash(t, q, cfg.Worker.Journal, xid.New(), deadly, deadly, innocent)
				deaths++
			}
			require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
			awaitEmpty(t, q)
			if !tc.dead {
				require.Zero(t, jstest.Count(q.js, StreamDead))
				require.Equal(t, 2, jstest.Count(q.js, StreamRewards))
				return
			}
			require.Equal(t, 1, jstest.Count(q.js, StreamRewards), "the innocent one's")
			letters := jstest.Messages(t, q.js, StreamDead)
			require.Len(t, letters, 1)
			require.Equal(t, "assay.v1.dead.crash", letters[0].Subject)
			require.Equal(t, item("poison"), string(letters[0].Data))
			require.Equal(t, "poison", letters[0].Header.Get(HeaderMsgID))
			require.Equal(t, "assay.v1.responses.job.7", letters[0].Header.Get(HeaderSubject))
			require.Equal(t, strconv.Itoa(deaths+1), letters[0].Header.Get(HeaderDeliveries))
			require.Equal(t, "500", letters[0].Header.Get(HeaderCode))
			require.Contains(t, letters[0].Header.Get(HeaderMessage), fmt.Sprintf("died %d times", deaths))
			require.Equal(t, 1.0, testutil.ToFloat64(q.metrics.dead.WithLabelValues("crash")))
			requireNoSuspects(t, q)
		})
	}
}

// A process that repeatedly dies between storing a reward and acknowledging its response leaves one reward and no dead
// letter.
func TestRewardedResponseIsNotDeadLettered(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Worker.Journal = filepath.Join(t.TempDir(), "in-flight")
	cfg.Worker.AckWait = time.Second
	q := openQueue(t, cfg)
	crash(t, q, "mine")
	for range poison.FatalAfter {
		writeCrash(t, q, cfg.Worker.Journal, xid.New(), 0, 1)
		restart(t, q)
	}
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	require.Zero(t, jstest.Count(q.js, StreamDead))
}

// Negative acknowledgements, slow deliveries and lost acknowledgements do not make a response a suspect: no process has
// died.
func TestFailuresMakeNoSuspect(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Worker.Journal = filepath.Join(t.TempDir(), "in-flight")
	cfg.Worker.AckWait = time.Second
	var calls atomic.Int32
	scorer := &isolationCounter{scorerFunc: func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
		if calls.Add(1) <= 2*poison.FatalAfter {
			return rewardmodel.Result{}, rewardmodel.ErrOverloaded
		}
		since(t, time.Now(), 3*cfg.Worker.AckWait/2)
		return good(ctx, it)
	}}
	q := startQueue(t, cfg, scorer)
	publish(t, q, "x", "1", item("text"))
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	require.Zero(t, jstest.Count(q.js, StreamDead))
	require.Zero(t, scorer.isolated.Load())
}

// A suspect that another process scores in isolation waits for that process, or for the report of its successor.
func TestOneReplicaIsolatesASuspect(t *testing.T) {
	t.Parallel()
	srv := jstest.Server(t, &server.Options{})
	var queues [2]*Queue
	for i := range queues {
		cfg := testConfig(t)
		cfg.Conn.URL = srv.ClientURL()
		cfg.Worker.Journal = filepath.Join(t.TempDir(), "in-flight")
		cfg.Worker.AckWait = time.Second
		cfg.Worker.RetryMax = 500 * time.Millisecond
		queues[i] = openQueue(t, cfg)
	}
	first, second := queues[0], queues[1]
	deadly := publish(t, first, "x", "poison", item("poison")).Sequence
	for range poison.IsolateAfter {
		writeCrash(t, first, first.cfg.Worker.Journal, xid.New(), 0, deadly)
		restart(t, first)
	}
	// The first one takes the suspect and is killed.
	dead, err := newWorker(first.nc, first.js, scorerFunc(good), first.cfg.Worker, first.log, first.metrics)
	require.NoError(t, err)
	src, err := dead.attach(t.Context(), false)
	require.NoError(t, err)
	batch, err := src.consumer.Fetch(1, jetstream.FetchMaxWait(jstest.Timeout))
	require.NoError(t, err)
	<-batch.Messages()
	held, err := src.quarantine.suspects.Hold(t.Context(), deadly, dead.id.String(), 1)
	require.NoError(t, err)
	require.True(t, held)
	writeCrash(t, first, first.cfg.Worker.Journal, dead.id, deadly, deadly)

	scorer := &isolationCounter{scorerFunc: good}
	require.NoError(t, second.Start(t.Context(), scorer))
	require.Eventually(t, func() bool { return testutil.ToFloat64(second.metrics.messages.WithLabelValues("deferred")) > 0 }, jstest.Timeout, time.Millisecond)
	require.NoError(t, first.Start(t.Context(), scorerFunc(good)), "its successor")
	awaitEmpty(t, first)
	require.Zero(t, scorer.isolated.Load())
	require.Zero(t, jstest.Count(first.js, StreamRewards))
	require.Equal(t, "assay.v1.dead.crash", jstest.Messages(t, first.js, StreamDead)[0].Subject)
}

// After a stall, responses stay in the journal although they are negatively acknowledged.
func TestMarkCrashKeepsTheJournal(t *testing.T) {
	cfg := testConfig(t)
	cfg.Worker.Journal = filepath.Join(t.TempDir(), "in-flight")
	blocked := make(chan struct{}, 10)
	q := startQueue(t, cfg, scorerFunc(func(ctx context.Context, _ rewardmodel.Item) (rewardmodel.Result, error) {
		blocked <- struct{}{}
		<-ctx.Done()
		return rewardmodel.Result{}, ctx.Err()
	}))
	sequence := publish(t, q, "x", "1", item("text")).Sequence
	<-blocked
	q.MarkCrash()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.Drain(ctx), context.Canceled)
	left, err := poison.ReadJournal(cfg.Worker.Journal)
	require.NoError(t, err)
	require.Equal(t, map[uint64]bool{sequence: false}, left.Sequences)
	awaitFetches(t)
}

// A process that is about to crash does not wait for the end of a pull.
func TestMarkCrashEndsThePull(t *testing.T) {
	q := startQueue(t, testConfig(t), nil)
	q.MarkCrash()
	ended := make(chan struct{})
	go func() {
		q.worker.puller.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(pullWait / 2): // a pull lasts longer
		t.Error("the pull continues")
	}
	awaitFetches(t)
}

// awaitFetches waits until the client of NATS has ended the pulls that were left, which would count as leaks. No test may run
// in parallel.
func awaitFetches(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	require.Eventually(t, func() bool {
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*pullConsumer).fetch"))
	}, 10*time.Second, 10*time.Millisecond)
}

// A crash counts once, however often the process starts before it can replace the journal.
func TestCrashCountsOnce(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Worker.Journal = filepath.Join(t.TempDir(), "in-flight")
	q := openQueue(t, cfg)
	sequence := publish(t, q, "x", "1", item("text")).Sequence
	writeCrash(t, q, cfg.Worker.Journal, xid.New(), 0, sequence)
	obstacle := cfg.Worker.Journal + ".new"
	require.NoError(t, os.Mkdir(obstacle, 0o700))
	for range poison.FatalAfter {
		restart(t, q)
	}
	deaths := func() int {
		return suspectsOf(t, q)[sequence].Deaths
	}
	require.Equal(t, 1, deaths())
	require.NoError(t, os.Remove(obstacle))
	writeCrash(t, q, cfg.Worker.Journal, xid.New(), 0, sequence)
	restart(t, q)
	require.Equal(t, 2, deaths(), "another crash")
}

// When the stream of responses is created again, the journal records the responses of the new one.
func TestRecreatedStreamIsJournaled(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Worker.Journal = filepath.Join(t.TempDir(), "in-flight")
	scoring, done := make(chan struct{}), make(chan struct{})
	q := startQueue(t, cfg, scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
		scoring <- struct{}{}
		<-done
		return good(ctx, it)
	}))
	stream := jstest.StreamConfig(t, q.js, StreamResponses)
	old := streamCreated(t, q)
	require.NoError(t, q.js.DeleteStream(t.Context(), StreamResponses))
	_, err := q.js.CreateStream(t.Context(), stream)
	require.NoError(t, err)
	require.NotEqual(t, old, streamCreated(t, q))
	sequence := publish(t, q, "x", "1", item("text")).Sequence
	<-scoring
	left, err := poison.ReadJournal(cfg.Worker.Journal)
	require.NoError(t, err)
	close(done)
	require.Equal(t, streamCreated(t, q).UnixNano(), left.Created)
	require.Equal(t, map[uint64]bool{sequence: false}, left.Sequences)
	awaitEmpty(t, q)
}
