package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// batchesOf returns the ids of the atomic batches that the labels came in, in
// order; "" is a label that came by itself.
func batchesOf(t *testing.T, q *Queue) []string {
	t.Helper()
	var ids []string
	for _, msg := range stored(t, q, StreamFeedback) {
		ids = append(ids, msg.Header.Get("Nats-Batch-Id"))
	}
	return slices.Compact(ids)
}

// One fsync covers up to 1,000 labels, since they are stored as one batch.
func TestLabelsAreStoredInBatches(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	accepts(t, q.Feedback(), 2500, 0, some(0, 2500)...)
	batches := batchesOf(t, q)
	require.Len(t, batches, 3)
	require.NotContains(t, batches, "")
	require.Len(t, records(t, q.Feedback()), 2500)

	large := some(3000, 20) // 1 MB each
	for i := range large {
		large[i].Response = strings.Repeat(large[i].Response, 1<<20/len(large[i].Response))
	}
	accepts(t, q.Feedback(), 20, 0, large...)
	require.Len(t, records(t, q.Feedback()), 2520)
}

// Without an fsync before each acknowledgement a batch is more work than its
// messages; and a stream of a server without batches has none.
func TestLabelsWithoutBatches(t *testing.T) {
	t.Parallel()
	relaxed := testConfig(t)
	relaxed.Server.SyncInterval = RelaxedSync
	q := openQueue(t, relaxed)
	accepts(t, q.Feedback(), 500, 0, some(0, 500)...)
	require.Equal(t, []string{""}, batchesOf(t, q))
	closeQueue(t, q)

	relaxed.Server.SyncInterval = 0 // the same store
	q = openQueue(t, relaxed)
	accepts(t, q.Feedback(), 500, 500, some(0, 1000)...)
	require.Len(t, batchesOf(t, q), 2)

	for version, has := range map[string]bool{"2.15.2": true, "2.12.0-RC.1": true, "3.0.0": true, "2.11.9": false, "2.9.0": false, "1.99.0": false, "": false, "x": false} {
		require.Equal(t, has, hasAPILevel2(version), version)
	}
}

// A stream of an earlier release gets batches when its server has them.
func TestAnExistingStreamGetsBatches(t *testing.T) {
	t.Parallel()
	nc, js := jetStream(t, &server.Options{})
	require.NoError(t, ensure(t, nc, js, StreamsConfig{KeepScored: DefaultDuplicateWindow}))
	require.False(t, config(t, js, StreamFeedback).AllowAtomicPublish)
	cfg := testConfig(t)
	cfg.Streams.KeepScored = DefaultDuplicateWindow
	cfg.Conn.URL = nc.ConnectedUrl()
	q := openQueue(t, cfg)
	require.True(t, config(t, js, StreamFeedback).AllowAtomicPublish)
	require.Equal(t, jetstream.DefaultPersistMode, config(t, js, StreamScored).PersistMode, "it cannot be changed")
	accepts(t, q.Feedback(), 100, 0, some(0, 100)...)
	require.Len(t, batchesOf(t, q), 1)
}

// A stream that acknowledges before it writes is refused, but for that of kept
// responses, which is one and keeps its one copy.
func TestAsynchronousStreams(t *testing.T) {
	t.Parallel()
	nc, js := jetStream(t, &server.Options{})
	cfg := StreamsConfig{KeepScored: DefaultDuplicateWindow, apiLevel2: true}
	require.NoError(t, ensure(t, nc, js, cfg))
	require.Equal(t, jetstream.AsyncPersistMode, config(t, js, StreamScored).PersistMode)
	next, _ := enlarge(config(t, js, StreamScored), jetstream.StreamConfig{Replicas: 3})
	require.Zero(t, next.replicas)
	cfg.apiLevel2 = false
	require.NoError(t, ensure(t, nc, js, cfg), "connected to an older server of a cluster")
	cfg.apiLevel2, cfg.Replicas = true, 3
	for _, want := range cfg.streams(nc.MaxPayload()) {
		require.Empty(t, incompatible(config(t, js, want.Name), want), want.Name)
	}
	cfg.Replicas = 0

	require.NoError(t, js.DeleteStream(t.Context(), StreamRewards))
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: StreamRewards, Subjects: []string{SubjectRewards + ".>"},
		PersistMode: jetstream.AsyncPersistMode})
	require.NoError(t, err)
	err = ensure(t, nc, js, cfg)
	require.ErrorIs(t, err, ErrIncompatibleStream)
	require.ErrorContains(t, err, "persist_mode")
}

// What is stored in the place of a label is not forgotten when the label does not
// fit into a batch, and is when the index knows it.
func TestLabelThatDoesNotFitIntoABatch(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	f := openQueue(t, testConfig(t)).Feedback()
	caughtUp(t, f)
	verdicts := make([]verdict, atomicMessages+1)
	candidates, err := f.candidates(ctx, batchOf(some(0, len(verdicts))...).Items, "", verdicts)
	require.NoError(t, err)
	found := uint64(7)
	for _, c := range candidates {
		c.found = &found
	}
	chunk, left := f.chunk(candidates, verdicts)
	require.Len(t, chunk.writes, atomicMessages)
	require.Len(t, left, 1)
	w, _ := f.prepare(left[0])
	require.Equal(t, "7", w.msg.Header.Get(jetstream.ExpectedLastSubjSeqHeader))

	accepts(t, f, 1, 0, some(0, 1)...)
	_, err = f.refresh(ctx, candidates[0])
	require.NoError(t, err)
	require.Nil(t, candidates[0].found)
}

// A label that is too large does not count among the responses to its prompt.
func TestLabelsThatAreTooLargeHaveNoGroup(t *testing.T) {
	t.Parallel()
	f := openQueue(t, testConfig(t)).Feedback()
	b := labelled("", bag.Violation)
	b.Prompt, b.Response = "Why?", strings.Repeat("x", DefaultMaxPayload)
	for i := range 20 { // as many as may share a group
		b.ID = fmt.Sprint("large", i)
		rejects(t, f, feedback.CodeTooLarge, "--nats-max-payload", b)
	}
	b.ID, b.Response = "small", "So."
	accepts(t, f, 1, 0, b)
	msg, err := f.stream.GetLastMsgForSubject(within(t), recordSubject(feedback.HashOf(b.ID), feedback.HashOf("")))
	require.NoError(t, err)
	require.Equal(t, feedback.Record{Bag: b}.Mark(0).Group.String(), msg.Header.Get(HeaderGroup))
}

// Items of one request that depend on each other are judged as if they came one
// after the other.
func TestItemsOfABatchThatDependOnEachOther(t *testing.T) {
	t.Parallel()
	f := openQueue(t, testConfig(t)).Feedback()
	rated := func(id, rater string, label bag.Label, text string) bag.Bag {
		return bag.Bag{ID: id, Rater: rater, Label: label, Response: text}
	}
	items := some(0, 40)
	items = append(items,
		rated("x", "ann", bag.Violation, "One text."),
		rated("x", "bob", bag.Compliant, "One text."),
		rated("x", "cid", bag.Compliant, "Another text."), // conflict
		rated("x", "ann", bag.Violation, "One text."),     // duplicate
		rated("x", "ann", bag.Compliant, "One text."),     // correction
		rated("x", "ann", bag.Violation, "One text."),     // and back
		rated("x", "dan", bag.Violation, "One text."),
	)
	receipt := appended(t, f, items...)
	require.Equal(t, 40+5, receipt.Accepted)
	require.Equal(t, 1, receipt.Duplicates)
	require.Len(t, receipt.Rejected, 1)
	require.Equal(t, 42, receipt.Rejected[0].Index)
	require.Equal(t, feedback.CodeConflict, receipt.Rejected[0].Code)
	all := records(t, f)
	require.Len(t, all, 43)
	require.Equal(t, bag.Violation, all["x/ann"].Record.Bag.Label)
	require.Less(t, all["x/bob"].Sequence, all["x/ann"].Sequence)

	raters := make([]bag.Bag, 300) // of one response, in one batch
	for i := range raters {
		raters[i] = rated("y", fmt.Sprint("rater", i), bag.Violation, "A text.")
	}
	accepts(t, f, 300, 0, raters...)
}

// A batch arrives or not, and its acknowledgement is lost: nothing counts twice,
// and nothing that is new is taken for known.
func TestBatchesAcrossLostAcknowledgements(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	f := q.Feedback()
	store := f.publishBatch
	for round, lose := range []func(context.Context, []*nats.Msg) error{
		func(context.Context, []*nats.Msg) error { return nats.ErrTimeout },
		func(ctx context.Context, msgs []*nats.Msg) error {
			_, err := store(ctx, msgs)
			return errors.Join(nats.ErrTimeout, err)
		},
		func(_ context.Context, msgs []*nats.Msg) error { // all but the last
			for i, msg := range msgs[:len(msgs)-1] {
				part := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: nats.Header{}}
				part.Header.Set(headerBatchID, "lost")
				part.Header.Set(headerBatchSequence, fmt.Sprint(i+1))
				if err := q.nc.PublishMsg(part); err != nil {
					return err
				}
			}
			return nats.ErrTimeout
		},
	} {
		var attempts atomic.Int64
		f.publishBatch = func(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
			if attempts.Add(1) == 1 {
				return 0, lose(ctx, msgs)
			}
			return store(ctx, msgs)
		}
		accepts(t, f, 300, 0, some(round*300, 300)...)
		require.LessOrEqual(t, attempts.Load(), int64(feedbackAttempts), "a batch that was stored is not divided")
		accepts(t, f, 0, 300, some(round*300, 300)...)
	}
	require.Len(t, records(t, f), 900)

	// At random, while two processes share the labels.
	g := replica(t, q, testConfig(t)).Feedback()
	for _, f := range []*Feedback{f, g} {
		f.publishBatch = func(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
			switch rand.IntN(4) {
			case 0:
				return 0, errors.New("it never arrived")
			case 1:
				_, err := publishAtomic(ctx, f.nc, msgs)
				return 0, errors.Join(nats.ErrTimeout, ignore(err))
			}
			return publishAtomic(ctx, f.nc, msgs)
		}
	}
	var accepted atomic.Int64
	var sending sync.WaitGroup
	for _, f := range []*Feedback{f, g} {
		for range 2 {
			sending.Go(func() {
				for first := 1000; first < 1400; first += 50 {
					for { // a batch may fail altogether; then it is sent again
						receipt, err := f.Append(t.Context(), batchOf(some(first, 100)...), "")
						if errors.Is(err, feedback.ErrUnavailable) {
							continue
						}
						if err != nil || receipt.Accepted+receipt.Duplicates != 100 {
							t.Errorf("%+v, %v", receipt, err)
						}
						accepted.Add(int64(receipt.Accepted))
						break
					}
				}
			})
		}
	}
	sending.Wait()
	require.LessOrEqual(t, accepted.Load(), int64(450), "at most one receipt counts an item as accepted")
	require.Len(t, records(t, f), 900+450)
}

// What one request sends does not make the labels of another wait or fail,
// though they share a batch.
func TestRequestsThatShareABatch(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	f := q.Feedback()
	store := f.publishBatch
	bad := recordSubject(feedback.HashOf("r7"), feedback.HashOf(""))
	refused := &jetstream.APIError{Code: 400, ErrorCode: 10176, Description: "atomic publish batch is incomplete"}
	var largest atomic.Int64
	f.publishBatch = func(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
		largest.Store(max(largest.Load(), int64(len(msgs))))
		if slices.ContainsFunc(msgs, func(m *nats.Msg) bool { return m.Subject == bad }) {
			return 0, refused
		}
		return store(ctx, msgs)
	}
	var sending sync.WaitGroup
	for i := range 30 {
		sending.Go(func() { accepts(t, f, 20, 0, some(20*i, 20)...) })
	}
	sending.Wait()
	require.Len(t, records(t, f), 600)
	require.Greater(t, largest.Load(), int64(20), "they share batches")
}

// Of a batch one label is refused: the others need few requests to the server, as
// each of those waits for the disk.
func TestOneRefusedLabelOfABatch(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	f := openQueue(t, testConfig(t)).Feedback()
	caughtUp(t, f)
	var requests atomic.Int64
	f.publish = func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		requests.Add(1)
		return f.js.PublishMsg(ctx, msg, opts...)
	}
	f.publishBatch = func(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
		requests.Add(1)
		return publishAtomic(ctx, f.nc, msgs)
	}
	const n, bad = 512, 77
	candidates, err := f.candidates(ctx, batchOf(some(0, n)...).Items, "", make([]verdict, n))
	require.NoError(t, err)
	var writes []*write
	for i, c := range candidates {
		if i == bad {
			c.found = new(uint64)
			*c.found = 1 << 20 // so that the server refuses it
		}
		w, _ := f.prepare(c)
		writes = append(writes, w)
	}
	f.storeBatch(writes)
	for i, w := range writes {
		require.Equal(t, i == bad, wrongSequence(w.err), "%d: %v", i, w.err)
	}
	require.Len(t, records(t, f), n-1)
	require.Less(t, requests.Load(), int64(64))
}
