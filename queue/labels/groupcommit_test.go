package labels_test

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

	"assay/queue"
	"assay/queue/embedded"
	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// batchesOf returns the ids of the atomic batches of the labels, in order; "" is a
// label outside a batch.
func batchesOf(t *testing.T, q *queue.Queue) []string {
	t.Helper()
	var ids []string
	for _, msg := range jstest.Messages(t, jstest.JetStream(t, q.Conn()), labels.StreamFeedback) {
		ids = append(ids, msg.Header.Get("Nats-Batch-Id"))
	}
	return slices.Compact(ids)
}

// One fsync covers up to 1,000 labels, since they are stored as one batch.
func TestLabelsAreStoredInBatches(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	labelstest.Accepts(t, q.Labels(), 2500, 0, labelstest.Some(0, 2500)...)
	batches := batchesOf(t, q)
	require.Len(t, batches, 3)
	require.NotContains(t, batches, "")
	require.Len(t, labelstest.Records(t, q.Labels()), 2500)

	large := labelstest.Some(3000, 20) // 1 MB each
	for i := range large {
		large[i].Response = strings.Repeat(large[i].Response, 1<<20/len(large[i].Response))
	}
	labelstest.Accepts(t, q.Labels(), 20, 0, large...)
	require.Len(t, labelstest.Records(t, q.Labels()), 2520)
}

// Batches are not used without an fsync before each acknowledgement, since they cost
// more than their messages then, nor on a server without batches.
func TestLabelsWithoutBatches(t *testing.T) {
	t.Parallel()
	relaxed := queuetest.Config(t)
	relaxed.Server.SyncInterval = embedded.RelaxedSync
	q := queuetest.Open(t, relaxed)
	labelstest.Accepts(t, q.Labels(), 500, 0, labelstest.Some(0, 500)...)
	require.Equal(t, []string{""}, batchesOf(t, q))
	queuetest.Close(t, q)

	relaxed.Server.SyncInterval = 0 // the same store
	q = queuetest.Open(t, relaxed)
	labelstest.Accepts(t, q.Labels(), 500, 500, labelstest.Some(0, 1000)...)
	require.Len(t, batchesOf(t, q), 2)

}

// The record that a label replaces is remembered while the label does not fit into a
// batch, and forgotten once the index has it.
func TestLabelThatDoesNotFitIntoABatch(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	f := queuetest.Open(t, queuetest.Config(t)).Labels()
	labelstest.CaughtUp(t, f)
	verdicts := make([]labels.Verdict, js.MaxBatch+1)
	candidates, err := f.Candidates(ctx, labelstest.BatchOf(labelstest.Some(0, len(verdicts))...), verdicts)
	require.NoError(t, err)
	for _, c := range candidates {
		c.SetFound(7)
	}
	writes, left := f.Chunk(candidates, verdicts)
	require.Equal(t, js.MaxBatch, writes)
	require.Len(t, left, 1)
	w := f.Prepare(left[0])
	require.Equal(t, "7", w.Header().Get(jetstream.ExpectedLastSubjSeqHeader))

	labelstest.Accepts(t, f, 1, 0, labelstest.Some(0, 1)...)
	require.NoError(t, f.Refresh(ctx, candidates[0]))
	require.Nil(t, candidates[0].Found())
}

// A label that is too large does not count among the responses to its prompt.
func TestLabelsThatAreTooLargeHaveNoGroup(t *testing.T) {
	t.Parallel()
	f := queuetest.Open(t, queuetest.Config(t)).Labels()
	b := labelstest.Labeled("", bag.Violation)
	b.Prompt, b.Response = "Why?", strings.Repeat("x", embedded.DefaultMaxPayload)
	for i := range 20 { // as many as may share a group
		b.ID = fmt.Sprint("large", i)
		labelstest.Rejects(t, f, feedback.CodeTooLarge, "maximum payload", b)
	}
	b.ID, b.Response = "small", "So."
	labelstest.Accepts(t, f, 1, 0, b)
	msg, err := f.Stream().GetLastMsgForSubject(jstest.Context(t), labels.RecordSubject(feedback.HashOf(b.ID), feedback.HashOf("")))
	require.NoError(t, err)
	require.Equal(t, feedback.Record{Bag: b}.Mark(0).Group.String(), msg.Header.Get(labels.HeaderGroup))
}

// Items of one request that depend on each other are handled as if they arrived one
// after the other.
func TestItemsOfABatchThatDependOnEachOther(t *testing.T) {
	t.Parallel()
	f := queuetest.Open(t, queuetest.Config(t)).Labels()
	rated := func(id, rater string, label bag.Label, text string) bag.Bag {
		return bag.Bag{ID: id, Rater: rater, Label: label, Response: text}
	}
	items := labelstest.Some(0, 40)
	items = append(items,
		rated("x", "ann", bag.Violation, "One text."),
		rated("x", "bob", bag.Compliant, "One text."),
		rated("x", "cid", bag.Compliant, "Another text."), // conflict
		rated("x", "ann", bag.Violation, "One text."),     // duplicate
		rated("x", "ann", bag.Compliant, "One text."),     // correction
		rated("x", "ann", bag.Violation, "One text."),     // reversal
		rated("x", "dan", bag.Violation, "One text."),
	)
	receipt := labelstest.Append(t, f, items...)
	require.Equal(t, 40+5, receipt.Accepted)
	require.Equal(t, 1, receipt.Duplicates)
	require.Len(t, receipt.Rejected, 1)
	require.Equal(t, 42, receipt.Rejected[0].Index)
	require.Equal(t, feedback.CodeConflict, receipt.Rejected[0].Code)
	all := labelstest.Records(t, f)
	require.Len(t, all, 43)
	require.Equal(t, bag.Violation, all["x/ann"].Record.Bag.Label)
	require.Less(t, all["x/bob"].Sequence, all["x/ann"].Sequence)

	raters := make([]bag.Bag, 300) // of one response, in one batch
	for i := range raters {
		raters[i] = rated("y", fmt.Sprint("rater", i), bag.Violation, "A text.")
	}
	labelstest.Accepts(t, f, 300, 0, raters...)
}

// The acknowledgement of a batch is lost, whether or not it was stored: no label
// counts twice, and no new one counts as a duplicate.
func TestBatchesAcrossLostAcknowledgements(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	store := f.PublishBatch()
	for round, lose := range []func(context.Context, []*nats.Msg) error{
		func(context.Context, []*nats.Msg) error { return nats.ErrTimeout },
		func(ctx context.Context, msgs []*nats.Msg) error {
			_, err := store(ctx, msgs)
			return errors.Join(nats.ErrTimeout, err)
		},
		func(_ context.Context, msgs []*nats.Msg) error { // all but the last
			for i, msg := range msgs[:len(msgs)-1] {
				part := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: nats.Header{}}
				part.Header.Set("Nats-Batch-Id", "lost")
				part.Header.Set("Nats-Batch-Sequence", fmt.Sprint(i+1))
				if err := q.Conn().PublishMsg(part); err != nil {
					return err
				}
			}
			return nats.ErrTimeout
		},
	} {
		var attempts atomic.Int64
		f.SetPublishBatch(func(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
			if attempts.Add(1) == 1 {
				return 0, lose(ctx, msgs)
			}
			return store(ctx, msgs)
		})
		labelstest.Accepts(t, f, 300, 0, labelstest.Some(round*300, 300)...)
		require.LessOrEqual(t, attempts.Load(), int64(labels.MaxAttempts), "a batch that was stored is not divided")
		labelstest.Accepts(t, f, 0, 300, labelstest.Some(round*300, 300)...)
	}
	require.Len(t, labelstest.Records(t, f), 900)

	// At random, while two processes share the labels.
	g := queuetest.Replica(t, q, queuetest.Config(t)).Labels()
	for _, f := range []*labels.Log{f, g} {
		f.SetPublishBatch(func(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
			switch rand.IntN(4) {
			case 0:
				return 0, errors.New("it never arrived")
			case 1:
				_, err := js.PublishBatch(ctx, q.Conn(), msgs)
				return 0, errors.Join(nats.ErrTimeout, ignore(err))
			}
			return js.PublishBatch(ctx, q.Conn(), msgs)
		})
	}
	var accepted atomic.Int64
	var sending sync.WaitGroup
	for _, f := range []*labels.Log{f, g} {
		for range 2 {
			sending.Go(func() {
				for first := 1000; first < 1400; first += 50 {
					for { // a batch that fails as a whole is sent again
						receipt, err := f.Append(t.Context(), labelstest.BatchOf(labelstest.Some(first, 100)...), "")
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
	require.Len(t, labelstest.Records(t, f), 900+450)
}

// Requests that share a batch do not delay or fail each other.
func TestRequestsThatShareABatch(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	store := f.PublishBatch()
	bad := labels.RecordSubject(feedback.HashOf("r7"), feedback.HashOf(""))
	refused := &jetstream.APIError{Code: 400, ErrorCode: 10176, Description: "atomic publish batch is incomplete"}
	var largest atomic.Int64
	f.SetPublishBatch(func(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
		largest.Store(max(largest.Load(), int64(len(msgs))))
		if slices.ContainsFunc(msgs, func(m *nats.Msg) bool { return m.Subject == bad }) {
			return 0, refused
		}
		return store(ctx, msgs)
	})
	var sending sync.WaitGroup
	for i := range 30 {
		sending.Go(func() { labelstest.Accepts(t, f, 20, 0, labelstest.Some(20*i, 20)...) })
	}
	sending.Wait()
	require.Len(t, labelstest.Records(t, f), 600)
	require.Greater(t, largest.Load(), int64(20), "they share batches")
}

// After one label of a batch is rejected, the others need few requests to the server,
// since each waits for the disk.
func TestOneRejectedLabelOfABatch(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	labelstest.CaughtUp(t, f)
	var requests atomic.Int64
	// Without the deadline of an attempt, after which the server may still store the batch: then it rejects the retry,
	// and each write has to be checked again.
	f.SetPublish(func(_ context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		requests.Add(1)
		return jstest.JetStream(t, q.Conn()).PublishMsg(ctx, msg, opts...)
	})
	f.SetPublishBatch(func(_ context.Context, msgs []*nats.Msg) (uint64, error) {
		requests.Add(1)
		return js.PublishBatch(ctx, q.Conn(), msgs)
	})
	const n, bad = 512, 77
	candidates, err := f.Candidates(ctx, labelstest.BatchOf(labelstest.Some(0, n)...), make([]labels.Verdict, n))
	require.NoError(t, err)
	var writes []*labels.Write
	for i, c := range candidates {
		if i == bad {
			c.SetFound(1 << 20) // so that the server rejects it
		}
		w := f.Prepare(c)
		writes = append(writes, w)
	}
	f.StoreBatch(writes)
	for i, w := range writes {
		require.Equal(t, i == bad, js.WrongSequence(w.Err()), "%d: %v", i, w.Err())
	}
	require.Len(t, labelstest.Records(t, f), n-1)
	require.Less(t, requests.Load(), int64(64))
}
