package labels_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/queue"
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

// rated returns a label that a rater set at a minute.
func rated(id, rater string, label bag.Label, minute int) bag.Bag {
	b := labelstest.Labeled(id, label)
	at := time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)
	b.Rater, b.Time = rater, &at
	return b
}

func withdraw(t *testing.T, f *labels.Log, id, rater string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	records, err := f.Withdraw(ctx, id, rater, "")
	require.NoError(t, err)
	return records
}

func labelsOf(t *testing.T, f *labels.Log, id string) feedback.ResponseLabels {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	given, err := f.LabelsOf(ctx, id)
	require.NoError(t, err)
	f.Index().Majority(&given)
	return given
}

// Looking at labels takes no consumer, of which a stream may have a limited number.
func TestLabelsOfLeavesNoConsumer(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	labelstest.Accepts(t, f, 2, 0, rated("x", "ann", bag.Violation, 1), rated("x", "ben", bag.Compliant, 2))
	require.Len(t, labelsOf(t, f, "x").Labels, 2)
	require.Empty(t, labelsOf(t, f, "y").Labels)
	stream, err := jstest.JetStream(t, q.Conn()).Stream(jstest.Context(t), labels.StreamFeedback)
	require.NoError(t, err)
	require.Equal(t, 1, stream.CachedInfo().State.Consumers, "of the index")
}

// The text of a damaged label does not stay in the store when it is withdrawn.
func TestWithdrawADamagedLabel(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	labelstest.Accepts(t, f, 1, 0, rated("x", "ann", bag.Violation, 1))
	subject := labels.RecordSubject(feedback.HashOf("x"), feedback.HashOf("ann"))
	last, err := jstest.LastOf(t, q.Conn(), subject)
	require.NoError(t, err)
	header := maps.Clone(last.Header)
	for _, name := range []string{jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader, jetstream.MsgIDHeader} {
		header.Del(name)
	}
	damaged := bytes.Replace(last.Data, []byte("The text"), []byte("The tept"), 1)
	_, err = jstest.JetStream(t, q.Conn()).PublishMsg(ctx, &nats.Msg{Subject: subject, Header: header, Data: damaged})
	require.NoError(t, err)
	v, err := f.Verify(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, v.DamagedCount)

	require.Equal(t, 1, withdraw(t, f, "x", "ann"))
	v, err = f.Verify(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 0}, []int{v.Labels, v.Withdrawn, v.DamagedCount})
	require.Zero(t, withdraw(t, f, "x", "ann"))
	labelstest.Accepts(t, f, 0, 1, rated("x", "ann", bag.Violation, 1)) // a delayed retry
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	other := queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: q.URL()}}).Labels() // of another process
	labelstest.Accepts(t, f, 3, 0, rated("x", "ann", bag.Violation, 1), rated("x", "ben", bag.Compliant, 1), rated("y", "ann", bag.Compliant, 1))
	given := labelsOf(t, f, "x")
	require.True(t, given.Disputed)
	require.Equal(t, 2, given.Raters)
	require.Len(t, given.Labels, 2)

	require.Zero(t, withdraw(t, f, "x", "carl"))
	require.Zero(t, withdraw(t, f, "z", "ann"))
	require.Equal(t, 1, withdraw(t, f, "x", "ann"))
	require.Zero(t, withdraw(t, f, "x", "ann"))
	for _, l := range []*labels.Log{f, other} {
		given = labelsOf(t, l, "x")
		require.Equal(t, bag.Compliant, given.Label)
		require.Len(t, given.Labels, 1)
		require.Equal(t, "ben", given.Labels[0].Rater)
		require.False(t, given.Labels[0].Received.IsZero())
		records := labelstest.Records(t, l)
		require.Len(t, records, 2)
		stats := l.Index().Stats(feedback.Split{}, 0)
		require.Equal(t, feedback.Stats{Bags: 2, Raters: 2, Records: 2, New: feedback.NewCounts{Bags: 2}}, stats)
		for key, of := range map[string]string{"x/ben": "x", "y/ann": "y"} {
			require.Equal(t, records[key].Sequence, labelstest.Contents(l.Index())[feedback.HashOf(of)].Sequence, "that of a record with the text")
		}
	}

	// A delayed retry of the label does not undo the withdrawal, a new label does.
	labelstest.Accepts(t, f, 0, 1, rated("x", "ann", bag.Violation, 1))
	again := rated("x", "ann", bag.Violation, 1)
	later := again.Time.Add(time.Millisecond)
	again.Time = &later
	labelstest.Accepts(t, other, 1, 0, again)
	require.True(t, labelsOf(t, f, "x").Disputed)
	require.Equal(t, 1, withdraw(t, f, "x", "ann"))
	labelstest.Accepts(t, f, 0, 1, again)

	// A response without labels is as unlabeled as before, but keeps its id.
	require.Equal(t, 1, withdraw(t, other, "x", "ben"))
	require.Equal(t, feedback.ResponseLabels{ID: "x", Labels: []feedback.RaterLabel{}}, labelsOf(t, f, "x"))
	require.True(t, labelstest.Contents(f.Index())[feedback.HashOf("x")].Unlabeled)
	require.Equal(t, 1, f.Index().Stats(feedback.Split{}, 0).Records)
	labelstest.Rejects(t, f, feedback.CodeConflict, "another response", bag.Bag{ID: "x", Rater: "dora", Label: bag.Compliant, Response: "Something else."})

	_, err := f.Erase(t.Context(), "x")
	require.NoError(t, err)
	require.Zero(t, withdraw(t, f, "x", "ben"))
	require.Empty(t, labelsOf(t, other, "x").Labels)
}

// The record of a withdrawal names who withdrew the label, not who gave it.
func TestSenderOfAWithdrawal(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	senderOf := func() string {
		last, err := jstest.LastOf(t, q.Conn(), labels.RecordSubject(feedback.HashOf("x"), feedback.HashOf("ann")))
		require.NoError(t, err)
		return last.Header.Get(labels.HeaderSender)
	}
	_, err := f.Append(t.Context(), labelstest.BatchOf(rated("x", "ann", bag.Violation, 1)), "tool")
	require.NoError(t, err)
	require.Equal(t, feedback.SenderOf("tool").String(), senderOf())
	records, err := f.Withdraw(t.Context(), "x", "ann", "other")
	require.NoError(t, err)
	require.Equal(t, 1, records)
	require.Equal(t, feedback.SenderOf("other").String(), senderOf())
	_, err = f.Append(t.Context(), labelstest.BatchOf(rated("x", "ann", bag.Violation, 2)), "tool")
	require.NoError(t, err)
	records, err = f.Withdraw(t.Context(), "x", "ann", "")
	require.NoError(t, err)
	require.Equal(t, 1, records)
	require.Empty(t, senderOf(), "without a token")
}

// A lost acknowledgement does not hide that a label was withdrawn, nor withdraw twice.
func TestWithdrawWithLostAcknowledgements(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f, publish := q.Labels(), jstest.JetStream(t, q.Conn()).PublishMsg
	labelstest.Accepts(t, f, 20, 0, labelstest.Some(0, 20)...)
	seen := map[string]bool{}
	f.SetPublish(func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		ack, err := publish(ctx, msg, opts...)
		if first := !seen[msg.Subject]; first {
			seen[msg.Subject] = true
			return nil, errors.Join(nats.ErrTimeout, ignore(err))
		}
		return ack, err
	})
	for i := range 20 {
		require.Equal(t, 1, withdraw(t, f, fmt.Sprint("r", i), ""))
	}
	require.Empty(t, labelstest.Records(t, f))
}

// Two processes store and withdraw labels of one rater at the same time: each label
// is withdrawn at most once, and both processes agree on what is left.
func TestWithdrawConcurrently(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	logs := []*labels.Log{q.Labels(), queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: q.URL()}}).Labels()}
	labelstest.Accepts(t, logs[0], 1, 0, labelstest.Labeled("x", bag.Violation))
	var accepted, withdrawn atomic.Int64
	accepted.Add(1)
	var group sync.WaitGroup
	for i := range 4 {
		f := logs[i%2]
		group.Go(func() {
			for range 15 {
				if i < 2 {
					receipt, err := f.Append(t.Context(), labelstest.BatchOf(labelstest.Labeled("x", bag.Violation)), "")
					if err != nil {
						t.Error(err)
					}
					accepted.Add(int64(receipt.Accepted))
					continue
				}
				n, err := f.Withdraw(t.Context(), "x", "", "")
				if err != nil {
					t.Error(err)
				}
				withdrawn.Add(int64(n))
			}
		})
	}
	group.Wait()
	left := labelsOf(t, logs[0], "x")
	require.Equal(t, left, labelsOf(t, logs[1], "x"))
	require.Equal(t, int64(len(left.Labels)), accepted.Load()-withdrawn.Load())
}
