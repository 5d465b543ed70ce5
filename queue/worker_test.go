package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/queue/embedded"
	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/rewardmodel"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestResponseBecomesRewardOnTheSameTail(t *testing.T) {
	t.Parallel()
	q := startQueue(t, testConfig(t), scorerFunc(good))
	msg := &nats.Msg{Subject: "assay.v1.responses.a.b.c", Data: []byte(`{"id":"mine","response":"Hello."}`), Header: nats.Header{}}
	msg.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	_, err := q.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
	publish(t, q, "x", "from-header", item("Hello."))
	publish(t, q, "ünï-cödé.$odd.{x}", "", item("Hello."))
	awaitEmpty(t, q)

	byID := map[string]*jetstream.RawStreamMsg{}
	for _, reward := range jstest.Messages(t, q.js, StreamRewards) {
		var result rewardmodel.Result
		require.NoError(t, json.Unmarshal(reward.Data, &result))
		require.Equal(t, 0.75, result.Reward)
		require.Equal(t, "v7", reward.Header.Get("Assay-Model-Version"))
		require.Equal(t, "3/x", reward.Header.Get("Assay-Numerics"))
		byID[result.ID] = reward
	}
	require.Len(t, byID, 3)
	require.Equal(t, "assay.v1.rewards.a.b.c", byID["mine"].Subject)
	require.Equal(t, msg.Header.Get("traceparent"), byID["mine"].Header.Get("traceparent"))
	require.Equal(t, "assay.v1.rewards.x", byID["from-header"].Subject)
	require.Equal(t, "assay.v1.rewards.ünï-cödé.$odd.{x}", byID["seq-3"].Subject)
	require.Equal(t, 3.0, testutil.ToFloat64(q.metrics.messages.WithLabelValues("rewarded")))
}

func TestDeadLettersAreUniqueAndHaveAReason(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, tail, body, reason, code, field, why string }{
		{"broken JSON", "a", `{"response":`, "invalid", "400", "response", "too early"},
		{"empty", "a", ``, "invalid", "400", "", "is empty"},
		{"not an object", "a", `["x"]`, "invalid", "400", "", "an object"},
		{"nothing to score", "a", `{"id":"x"}`, "invalid", "400", "", "exactly one"},
		{"wrong type", "a", `{"response":7}`, "invalid", "400", "response", "a string"},
		{"invalid UTF-8", "a", "{\"response\":\"\xff\"}", "invalid", "400", "response", "UTF-8"},
		{"lone surrogate", "a", `{"response":"\ud800"}`, "invalid", "400", "response", "surrogate"},
		{"tokens without a dense reward", "a", `{"response":"a","token_offsets":[[0,1]]}`, "invalid", "400", "token_offsets", "assay.v1.score"},
		{"wildcard subject", "a.*", item("fine"), "invalid", "400", "subject", "wildcard"},
		{"too many instances", "a", item("refuse"), "too_large", "413", "response", "too big"},
		{"model fails", "a", item("poison"), "model", "500", "", "poisoned"},
		{"model panics", "a", item("panic"), "model", "500", "", "panic: boom"},
		{"result too large", "a", item("inflate"), "too_large", "413", "", "the result is"},
	}
	scorer := scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
		result, _ := good(ctx, it)
		switch *it.Response {
		case "refuse":
			return result, &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge, Field: "response", Message: "too big"}
		case "poison":
			return result, fmt.Errorf("%w: poisoned\nbadly", rewardmodel.ErrModel)
		case "panic":
			panic("boom")
		case "inflate":
			result.Witness = &rewardmodel.Witness{Text: strings.Repeat("x", embedded.DefaultMaxPayload)}
		}
		return result, nil
	})
	q := startQueue(t, testConfig(t), scorer)
	for _, tc := range tests {
		publish(t, q, tc.tail, tc.name, tc.body)
		publish(t, q, "neighbour", "", item("good"))
	}
	awaitEmpty(t, q)

	letters := map[string]*jetstream.RawStreamMsg{}
	for _, letter := range jstest.Messages(t, q.js, StreamDead) {
		letters[letter.Header.Get("Assay-Msg-Id")] = letter
	}
	require.Equal(t, len(tests), jstest.Count(q.js, StreamDead), "once each")
	for i, tc := range tests {
		letter := letters[tc.name]
		require.NotNil(t, letter, tc.name)
		require.Equal(t, "assay.v1.dead."+tc.reason, letter.Subject, tc.name)
		require.Equal(t, tc.body, string(letter.Data), tc.name)
		require.Equal(t, "assay.v1.responses."+tc.tail, letter.Header.Get("Assay-Subject"), tc.name)
		require.Equal(t, fmt.Sprint(2*i+1), letter.Header.Get("Assay-Sequence"), tc.name)
		require.Equal(t, tc.code, letter.Header.Get("Assay-Error-Code"), tc.name)
		require.Equal(t, tc.field, letter.Header.Get("Assay-Error-Field"), tc.name)
		require.Contains(t, letter.Header.Get("Assay-Error"), tc.why, tc.name)
	}
	require.Equal(t, "5", letters["model fails"].Header.Get("Assay-Deliveries"))
	require.Equal(t, len(tests), jstest.Count(q.js, StreamRewards), "the neighbours'")
}

func TestRetryableFailuresNeverDeadLetter(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"overloaded": &rewardmodel.OverloadedError{RetryAfter: time.Millisecond},
		"closed":     rewardmodel.ErrClosed,
		"model":      rewardmodel.ErrModel,
		"any":        errors.New("out of luck"),
	} {
		t.Run(name, func(t *testing.T) {
			q := startQueue(t, testConfig(t), once(err, good))
			for i := range 50 {
				publish(t, q, "x", fmt.Sprint(i), item("text"))
			}
			awaitEmpty(t, q)
			require.Equal(t, 50, jstest.Count(q.js, StreamRewards))
			require.Zero(t, jstest.Count(q.js, StreamDead))
		})
	}
}

// Only failures of the model count, not the deliveries that an overload or a failure of
// JetStream ended.
func TestOverloadIsNotCountedAsFailure(t *testing.T) {
	t.Parallel()
	const fewer = DefaultMaxDeliver - 1
	for failures, want := range map[int32]struct{ rewards, dead int }{0: {1, 0}, fewer: {1, 0}, fewer + 1: {0, 1}} {
		t.Run(fmt.Sprint(failures, " failures"), func(t *testing.T) {
			t.Parallel()
			q := openQueue(t, testConfig(t))
			var calls, stores atomic.Int32
			w, err := newWorker(q.nc, q.js, scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
				switch n := calls.Add(1); {
				case n <= 12: // more than MaxDeliver
					return rewardmodel.Result{}, rewardmodel.ErrOverloaded
				case n <= 12+failures, failures > fewer:
					return rewardmodel.Result{}, rewardmodel.ErrModel
				}
				return good(ctx, it)
			}), q.cfg.Worker, q.log, q.metrics)
			require.NoError(t, err)
			w.publish = func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
				if stores.Add(1) <= publishAttempts {
					return nil, errors.New("the disk failed")
				}
				return q.js.PublishMsg(ctx, msg, opts...)
			}
			require.NoError(t, w.start(t.Context()))
			publish(t, q, "x", "1", item("text"))
			awaitEmpty(t, q)
			require.NoError(t, w.drain(t.Context()))
			require.Equal(t, want.rewards, jstest.Count(q.js, StreamRewards))
			require.Equal(t, want.dead, jstest.Count(q.js, StreamDead))
			require.Equal(t, 12.0, testutil.ToFloat64(q.metrics.messages.WithLabelValues("overloaded")))
			require.Equal(t, 1.0, testutil.ToFloat64(q.metrics.messages.WithLabelValues("store_failed")))
			require.Empty(t, w.failures, "of a response that is completed")
		})
	}
}

// Failures on a response that another process completes are forgotten.
func TestFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	w, err := newWorker(q.nc, q.js, scorerFunc(good), q.cfg.Worker, q.log, q.metrics)
	require.NoError(t, err)
	_, err = w.attach(jstest.Context(t), false)
	require.NoError(t, err)
	d := &delivery{key: "x 1", meta: metaOf(1)}
	require.Equal(t, 1, w.modelFailed(d))
	require.Equal(t, 2, w.modelFailed(d))
	w.forgetFailures(1)
	require.Len(t, w.failures, 1, "it waits")
	w.measure()
	require.Empty(t, w.failures)
	require.NoError(t, w.closeJournal())
}

func TestPublishedTwiceIsRewardedOnce(t *testing.T) {
	t.Parallel()
	q := startQueue(t, testConfig(t), scorerFunc(good))
	require.False(t, publish(t, q, "x", "same", item("text")).Duplicate)
	require.True(t, publish(t, q, "x", "same", item("text")).Duplicate)
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))

	// The server may forget the ids of completed responses, as it does
	// when it restarts: the stored reward still shows it.
	closeQueue(t, q)
	again := startQueue(t, q.cfg, scorerFunc(good))
	publish(t, again, "x", "same", item("text"))
	awaitEmpty(t, again)
	require.Equal(t, 1, jstest.Count(again.js, StreamRewards))
}

// A crash after the reward is stored and before the response is acknowledged must not
// create a second reward.
func TestCrashBetweenRewardAndAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "mine"} {
		t.Run("id "+id, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Worker.AckWait = time.Second
			q := openQueue(t, cfg)
			crash(t, q, id)
			require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
			awaitEmpty(t, q)
			require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
		})
	}
}

func TestCrashAndDowntimeBeyondTheDuplicateWindow(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.DuplicateWindow = 100 * time.Millisecond
	for _, id := range []string{"", "mine"} {
		t.Run("id "+id, func(t *testing.T) {
			cfg.Server.DataDir = t.TempDir()
			q := openQueue(t, cfg)
			crash(t, q, id)
			rewarded := time.Now()
			closeQueue(t, q)
			since(t, rewarded, 3*cfg.Streams.DuplicateWindow)
			again := startQueue(t, cfg, scorerFunc(good))
			awaitEmpty(t, again)
			require.Equal(t, 1, jstest.Count(again.js, StreamRewards))
		})
	}
}

// A clock that is set back between a response and its reward makes the reward the older one: it
// is recognized all the same, when the server has forgotten its key.
func TestRewardThatIsOlderThanItsResponse(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.DuplicateWindow = 100 * time.Millisecond
	q := openQueue(t, cfg)
	reward := nats.NewMsg(SubjectRewards + ".x")
	reward.Header.Set(jetstream.MsgIDHeader, "x mine")
	reward.Header.Set(HeaderSequence, "1")
	js.Seal(reward.Subject, reward.Header, reward.Data)
	_, err := q.js.PublishMsg(t.Context(), reward)
	require.NoError(t, err)
	rewarded := time.Now()
	require.EqualValues(t, 1, publish(t, q, "x", "mine", item("text")).Sequence)
	since(t, rewarded, 3*cfg.Streams.DuplicateWindow)
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))

	publish(t, q, "x", "mine", item("text"))
	awaitEmpty(t, q)
	require.Equal(t, 2, jstest.Count(q.js, StreamRewards), "a new response with the same id, after the window")
}

// crash stores the reward of one response and dies before the acknowledgement.
func crash(t *testing.T, q *Queue, id string) { crashWith(t, q, id, item("text")) }

func crashWith(t *testing.T, q *Queue, id, body string) {
	t.Helper()
	cfg := q.cfg.Worker
	cfg.AckWait = time.Second
	w, err := newWorker(q.nc, q.js, scorerFunc(good), cfg, q.log, q.metrics)
	require.NoError(t, err)
	w.ack = func(jetstream.Msg) error { return errors.New("dead") }
	require.NoError(t, w.start(t.Context()))
	publish(t, q, "x", id, body)
	require.Eventually(t, func() bool { return jstest.Count(q.js, StreamRewards) == 1 }, jstest.Timeout, time.Millisecond)
	require.NoError(t, w.drain(t.Context()))
	require.Equal(t, 1, jstest.Count(q.js, StreamResponses))
}

// losesAnAcknowledgement starts a worker that loses the acknowledgement of its first response, of which it has stored the
// reward. acks counts all.
func losesAnAcknowledgement(t *testing.T, cfg Config) (q *Queue, w *worker, acks *atomic.Int32) {
	t.Helper()
	q = openQueue(t, cfg)
	w, err := newWorker(q.nc, q.js, scorerFunc(good), cfg.Worker, q.log, q.metrics)
	require.NoError(t, err)
	acks = &atomic.Int32{}
	w.ack = func(msg jetstream.Msg) error {
		if acks.Add(1) == 1 {
			return errors.New("lost")
		}
		return msg.Ack()
	}
	require.NoError(t, w.start(t.Context()))
	return q, w, acks
}

// Another process creates the consumer again while this one has no request for responses there: a response that lacks
// only its acknowledgement is delivered as if for the first time.
func TestConsumerThatAnotherProcessCreatedAgain(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.DuplicateWindow = 100 * time.Millisecond
	cfg.Worker.MaxInFlight = 4
	q, w, acks := losesAnAcknowledgement(t, cfg)
	publish(t, q, "x", "1", item("text"))
	require.Eventually(t, func() bool { return acks.Load() == 1 }, jstest.Timeout, time.Millisecond)
	rewarded := time.Now()
	require.NoError(t, w.slots.Acquire(t.Context(), int64(cfg.Worker.MaxInFlight)))
	require.NoError(t, q.js.DeleteConsumer(t.Context(), StreamResponses, ConsumerScorer))
	_, err := w.consumer(t.Context(), false)
	require.NoError(t, err)
	since(t, rewarded, 3*cfg.Streams.DuplicateWindow)
	publish(t, q, "x", "2", item("text"))
	w.slots.Release(int64(cfg.Worker.MaxInFlight))
	awaitEmpty(t, q)
	require.NoError(t, w.drain(t.Context()))
	require.Equal(t, 2, jstest.Count(q.js, StreamRewards))
	require.EqualValues(t, 3, acks.Load())
}

func TestRedeliveredBeyondTheWindowWithoutRestart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.DuplicateWindow = 100 * time.Millisecond
	cfg.Worker.AckWait = time.Second // the lost acknowledgement shows after ten windows
	q, w, acks := losesAnAcknowledgement(t, cfg)
	publish(t, q, "x", "1", item("text"))
	awaitEmpty(t, q)
	require.NoError(t, w.drain(t.Context()))
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	require.EqualValues(t, 2, acks.Load())
}

func TestFailedPublishIsRetried(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	w, err := newWorker(q.nc, q.js, scorerFunc(good), q.cfg.Worker, q.log, q.metrics)
	require.NoError(t, err)
	var calls atomic.Int32
	w.publish = func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		ack, err := q.js.PublishMsg(ctx, msg, opts...)
		if calls.Add(1) <= publishAttempts+1 {
			return nil, nats.ErrTimeout // stored, but the acknowledgement is lost
		}
		return ack, err
	}
	require.NoError(t, w.start(t.Context()))
	publish(t, q, "x", "1", item("text"))
	awaitEmpty(t, q)
	require.NoError(t, w.drain(t.Context()))
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
}

func TestBackpressureAndHeartbeats(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Worker.MaxInFlight = 4
	cfg.Worker.AckWait = 2 * time.Second
	var scoring, calls atomic.Int32
	release := make(chan struct{})
	q := startQueue(t, cfg, scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
		scoring.Add(1)
		defer scoring.Add(-1)
		calls.Add(1)
		<-release
		return good(ctx, it)
	}))
	for i := range 20 {
		publish(t, q, "x", fmt.Sprint(i), item("text"))
	}
	require.Eventually(t, func() bool { return scoring.Load() == 4 }, jstest.Timeout, time.Millisecond)
	since(t, time.Now(), 3*cfg.Worker.AckWait/2) // long enough for a redelivery without heartbeats
	require.EqualValues(t, 4, calls.Load(), "no more than MaxInFlight, and none twice")
	consumer, err := q.js.Consumer(t.Context(), StreamResponses, ConsumerScorer)
	require.NoError(t, err)
	require.Equal(t, 4, consumer.CachedInfo().NumAckPending)
	require.Zero(t, consumer.CachedInfo().NumRedelivered)
	close(release)
	awaitEmpty(t, q)
	require.Equal(t, 20, jstest.Count(q.js, StreamRewards))
}

// beating is a response in flight that counts its heartbeats.
type beating struct {
	fakeMsg
	beats *atomic.Int32
}

func (m beating) InProgress() error {
	m.beats.Add(1)
	return nil
}

// Heartbeats are sent while the results are read, however long that takes, and measuring waits
// for it.
func TestHeartbeatsWhileResultsAreRead(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the lag is measured")
	}
	t.Parallel()
	q := openQueue(t, testConfig(t))
	cfg := q.cfg.Worker
	cfg.AckWait = time.Second
	var block atomic.Bool
	reading, release, measuring := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	w, err := newWorker(q.nc, hooked{JetStream: q.js,
		stream: func(name string) {
			if name == StreamRewards && block.CompareAndSwap(true, false) {
				close(reading)
				<-release
			}
		},
		consumer: func() {
			select {
			case measuring <- struct{}{}:
			default:
			}
		},
	}, scorerFunc(good), cfg, q.log, q.metrics)
	require.NoError(t, err)
	require.NoError(t, w.start(t.Context()))
	d := &delivery{msg: beating{beats: &atomic.Int32{}}, meta: metaOf(1)}
	w.track(d)
	block.Store(true)
	read := make(chan error, 1)
	go func() { read <- w.results.Rebuild(t.Context(), 1) }()
	<-reading
	<-measuring
	beats := d.msg.(beating).beats
	before := beats.Load()
	require.Eventually(t, func() bool { return beats.Load() >= before+3 }, jstest.Timeout, 5*time.Millisecond)
	close(release)
	require.NoError(t, <-read)
	w.untrack(d)
	require.NoError(t, w.drain(t.Context()))
}

func TestDrainNaksUnfinishedResponses(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := openQueue(t, cfg)
	stalled := make(chan struct{}, 10)
	w, err := startWorker(t.Context(), q.nc, q.js, scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
		stalled <- struct{}{}
		<-ctx.Done()
		return rewardmodel.Result{}, ctx.Err()
	}), cfg.Worker, q.log, q.metrics)
	require.NoError(t, err)
	publish(t, q, "x", "1", item("text"))
	<-stalled
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.drain(ctx), context.Canceled)

	begin := time.Now()
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	awaitEmpty(t, q)
	require.Less(t, time.Since(begin), 10*time.Second, "well before AckWait")
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
}

func TestLargeResponses(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := startQueue(t, cfg, scorerFunc(good))
	large := strings.Repeat("x", embedded.DefaultMaxPayload-deadRoom-1024)
	publish(t, q, "x", "large", item(large))
	publish(t, q, "x", "large and broken", `{"response":"`+large)
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	letters := jstest.Messages(t, q.js, StreamDead)
	require.Len(t, letters, 1)
	require.Len(t, letters[0].Data, len(large)+len(`{"response":"`), "whole")

	_, err := q.js.Publish(t.Context(), SubjectResponses+".x", []byte(item(large+strings.Repeat("x", 2048))))
	require.ErrorIs(t, err, jetstream.ErrStreamMessageExceedsMaximum, "the publisher gets an error")
	_, err = q.js.Publish(t.Context(), SubjectResponses+".x", make([]byte, 9<<20))
	require.ErrorIs(t, err, nats.ErrMaxPayload)
}

func TestFullStreamRejectsThePublisher(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.ResponsesMaxBytes = 4096
	q := openQueue(t, cfg)
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = q.js.Publish(t.Context(), SubjectResponses+".x", []byte(item(strings.Repeat("x", 500))))
	}
	require.ErrorContains(t, err, "maximum bytes exceeded")
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	awaitEmpty(t, q)
	require.Equal(t, n-1, jstest.Count(q.js, StreamRewards), "none of those that were accepted is lost")
}

func TestReplicasShareTheWork(t *testing.T) {
	t.Parallel()
	srv := jstest.Server(t, &server.Options{})
	const responses = 400
	var worked [2]atomic.Int32
	var queues [2]*Queue
	for i := range queues {
		cfg := testConfig(t)
		cfg.Conn.URL = srv.ClientURL()
		cfg.Worker.MaxInFlight = 8
		queues[i] = startQueue(t, cfg, scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
			worked[i].Add(1)
			return moody(ctx, it)
		}))
	}
	for i := range responses {
		publish(t, queues[0], "x", fmt.Sprint(i), item("text"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = queues[0].Drain(ctx) // stops early, with or without messages to nak
	awaitEmpty(t, queues[1])
	require.Equal(t, responses, jstest.Count(queues[1].js, StreamRewards))
	require.NotZero(t, worked[0].Load())
	require.NotZero(t, worked[1].Load())
}

// A consumer whose files are damaged is created again, and gets the responses that are left.
func TestConsumerOnDamagedFiles(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(data []byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"cut":          func(data []byte) []byte { return data[:len(data)/2] },
		"cut to bytes": func(data []byte) []byte { return data[:min(3, len(data))] },
		"zeros":        func(data []byte) []byte { return make([]byte, len(data)) },
	} {
		for _, file := range []string{"o.dat", "meta.inf", "meta.sum"} {
			t.Run(name+" "+file, func(t *testing.T) {
				t.Parallel()
				cfg := testConfig(t)
				q := startQueue(t, cfg, unavailable("seq-2"))
				for range 3 {
					publish(t, q, "x", "", item("Hello."))
				}
				require.Eventually(t, func() bool { return jstest.Count(q.js, StreamRewards) == 1 }, jstest.Timeout, 5*time.Millisecond)
				closeQueue(t, q)
				path := filepath.Join(cfg.Server.DataDir, "nats/jetstream/$G/streams", StreamResponses, "obs", ConsumerScorer, file)
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, damage(data), 0o600))

				q = startQueue(t, cfg, scorerFunc(good))
				awaitEmpty(t, q)
				require.Equal(t, 3, jstest.Count(q.js, StreamRewards))
			})
		}
	}
}

// A response that the server counts as acknowledged, and keeps, gets its reward, or is
// recognized if it has one.
func TestAcknowledgedResponsesThatAreLeft(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	w, err := newWorker(q.nc, q.js, scorerFunc(good), WorkerConfig{server: q.server}, q.log, q.metrics)
	require.NoError(t, err)
	_, err = w.attach(jstest.Context(t), false)
	require.NoError(t, err)
	for _, id := range []string{"r1", "r2"} {
		publish(t, q, "x", id, item("A text."))
	}
	_, err = q.js.PublishMsg(jstest.Context(t), &nats.Msg{Subject: SubjectRewards + ".x", Header: nats.Header{jetstream.MsgIDHeader: {"x r1"}}})
	require.NoError(t, err)
	_, err = q.js.ResetConsumerToSequence(jstest.Context(t), StreamResponses, ConsumerScorer, 3) // as if both were acknowledged
	require.NoError(t, err)
	require.Equal(t, 2, jstest.Count(q.js, StreamResponses))

	w.measure()
	_, err = q.js.Consumer(jstest.Context(t), StreamResponses, ConsumerScorer)
	require.NoError(t, err, "they may be about to leave")
	w.measure()
	_, err = q.js.Consumer(jstest.Context(t), StreamResponses, ConsumerScorer)
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	require.NoError(t, w.closeJournal())
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	awaitEmpty(t, q)
	require.Equal(t, 2, jstest.Count(q.js, StreamRewards))
}
