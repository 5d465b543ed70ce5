package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func labelled(id string, label bag.Label) bag.Bag {
	return bag.Bag{ID: id, Label: label, Response: "The text of " + id + "."}
}

func batchOf(bags ...bag.Bag) feedback.Batch {
	var b feedback.Batch
	for i, it := range bags {
		b.Items = append(b.Items, feedback.Entry{Index: i, Item: feedback.Item{Bag: it}})
	}
	return b
}

// some returns bags with ids from first on, of both labels.
func some(first, n int) []bag.Bag {
	bags := make([]bag.Bag, n)
	for i := range bags {
		label := bag.Compliant
		if (first+i)%3 == 0 {
			label = bag.Violation
		}
		bags[i] = labelled(fmt.Sprint("r", first+i), label)
	}
	return bags
}

func appended(t testing.TB, f *Feedback, bags ...bag.Bag) feedback.Receipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	receipt, err := f.Append(ctx, batchOf(bags...), "ann")
	require.NoError(t, err)
	require.Equal(t, len(bags), receipt.Accepted+receipt.Duplicates+len(receipt.Rejected))
	return receipt
}

func accepts(t testing.TB, f *Feedback, accepted, duplicates int, bags ...bag.Bag) {
	t.Helper()
	receipt := appended(t, f, bags...)
	require.Empty(t, receipt.Rejected)
	require.Equal(t, accepted, receipt.Accepted)
	require.Equal(t, duplicates, receipt.Duplicates)
}

func rejects(t testing.TB, f *Feedback, code feedback.Code, says string, b bag.Bag) {
	t.Helper()
	receipt := appended(t, f, b)
	require.Len(t, receipt.Rejected, 1)
	require.Equal(t, code, receipt.Rejected[0].Code)
	require.Equal(t, b.ID, receipt.Rejected[0].ID)
	require.Contains(t, receipt.Rejected[0].Message, says)
}

func caughtUp(t testing.TB, f *Feedback) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, f.CaughtUp(ctx))
}

// records returns all records by id and rater.
func records(t testing.TB, f *Feedback) map[string]feedback.Stored {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, f.CaughtUp(ctx))
	out := map[string]feedback.Stored{}
	last := uint64(0)
	for r, err := range f.Records(ctx, f.Index().Last()) {
		require.NoError(t, err)
		require.Greater(t, r.Sequence, last, "in order")
		last = r.Sequence
		key := r.Record.Bag.ID + "/" + r.Record.Bag.Rater
		require.NotContains(t, out, key)
		out[key] = r
	}
	return out
}

// contents is what an index says of everything.
func contents(x *feedback.Index) map[feedback.Hash]feedback.Bag {
	out := map[feedback.Hash]feedback.Bag{}
	for b := range x.Bags(feedback.Split{Share: 0.2}) {
		out[b.ID] = b
	}
	return out
}

// replica opens another process on the server of q.
func replica(t testing.TB, q *Queue, cfg Config) *Queue {
	cfg.Conn.URL = q.URL()
	return openQueue(t, cfg)
}

func TestFeedbackOfOneRater(t *testing.T) {
	t.Parallel()
	f := openQueue(t, testConfig(t)).Feedback()
	accepts(t, f, 100, 0, some(0, 100)...)
	accepts(t, f, 0, 100, some(0, 100)...)
	accepts(t, f, 50, 50, some(50, 100)...)

	// Both of one id in one batch, in their order; a flip, and back again.
	accepts(t, f, 2, 1, labelled("x", bag.Compliant), labelled("x", bag.Compliant), labelled("x", bag.Violation))
	accepts(t, f, 1, 0, labelled("x", bag.Compliant))
	accepts(t, f, 1, 0, labelled("x", bag.Violation))
	accepts(t, f, 0, 1, labelled("x", bag.Violation))
	require.Equal(t, bag.Violation, records(t, f)["x/"].Record.Bag.Label)

	// A later time corrects; an earlier one comes late.
	at := time.Date(2026, 3, 1, 12, 0, 0, 1, time.FixedZone("", 7200))
	timed := func(label bag.Label, d time.Duration) bag.Bag {
		b := labelled("timed", label)
		at := at.Add(d)
		b.Time = &at
		return b
	}
	accepts(t, f, 1, 0, timed(bag.Compliant, 0))
	accepts(t, f, 0, 1, timed(bag.Violation, -time.Hour))
	accepts(t, f, 1, 0, timed(bag.Compliant, time.Nanosecond))

	other := labelled("x", bag.Violation)
	other.Response = "Another text."
	rejects(t, f, feedback.CodeConflict, "id of its own", other)
	large := labelled("large", bag.Violation)
	large.Response = strings.Repeat("x", DefaultMaxPayload)
	rejects(t, f, feedback.CodeTooLarge, "--nats-max-payload", large)

	all := records(t, f)
	require.Len(t, all, 152)
	record := all["timed/"].Record
	require.Equal(t, "ann", record.By)
	require.True(t, record.Bag.Time.Equal(at.Add(1)))
	require.WithinDuration(t, time.Now(), record.Received, patience)
	require.EqualValues(t, 152, f.Index().Stats(feedback.Split{Share: 0.2}, 0).Records)
}

func TestFeedbackKeepsRejectionsInOrder(t *testing.T) {
	t.Parallel()
	f := openQueue(t, testConfig(t)).Feedback()
	batch := feedback.Batch{
		Items:    []feedback.Entry{{Index: 1, Item: feedback.Item{Bag: bag.Bag{ID: "u", Label: bag.Compliant}, ResponseID: "u"}}},
		Rejected: []feedback.Rejection{{Index: 0, Code: feedback.CodeInvalid}, {Index: 2, Code: feedback.CodeInvalid}},
	}
	receipt, err := f.Append(t.Context(), batch, "")
	require.NoError(t, err)
	require.Len(t, receipt.Rejected, 3)
	require.Equal(t, feedback.CodeUnknown, receipt.Rejected[1].Code)
	require.Contains(t, receipt.Rejected[1].Message, "--keep-scored")
	empty, err := f.Append(t.Context(), feedback.Batch{}, "")
	require.NoError(t, err)
	require.NotNil(t, empty.Rejected)
}

// Two processes take overlapping batches of the same raters at once: each item
// is accepted by exactly one of them.
func TestFeedbackOfReplicas(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := openQueue(t, cfg)
	replicas := []*Feedback{q.Feedback(), replica(t, q, cfg).Feedback()}
	const batches, size = 20, 50
	var accepted, duplicates atomic.Int64
	var done sync.WaitGroup
	for r, f := range replicas {
		for range 2 {
			done.Go(func() {
				for i := range batches {
					start := i * size / 2
					if r == 1 {
						start = (batches - 1 - i) * size / 2
					}
					receipt := appended(t, f, some(start, size)...)
					require.Empty(t, receipt.Rejected)
					accepted.Add(int64(receipt.Accepted))
					duplicates.Add(int64(receipt.Duplicates))
				}
			})
		}
	}
	done.Wait()
	const ids = (batches + 1) * size / 2
	require.EqualValues(t, ids, accepted.Load())
	require.EqualValues(t, 4*batches*size-ids, duplicates.Load())
	require.Len(t, records(t, replicas[0]), ids)
	caughtUp(t, replicas[1])
	require.Equal(t, contents(replicas[0].Index()), contents(replicas[1].Index()))
}

// Raters change their minds at two processes at once. Whatever order that has,
// every change that was accepted took the place of the one before.
func TestCorrectionsAtTwoReplicas(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := openQueue(t, cfg)
	replicas := []*Feedback{q.Feedback(), replica(t, q, cfg).Feedback()}
	var done sync.WaitGroup
	for _, f := range replicas {
		for range 3 {
			done.Go(func() {
				for range 20 {
					b := labelled(fmt.Sprint("c", rand.IntN(5)), bag.Violation)
					b.Rater = fmt.Sprint(rand.IntN(2))
					if rand.IntN(2) == 0 {
						b.Label = bag.Compliant
					}
					require.Empty(t, appended(t, f, b).Rejected)
				}
			})
		}
	}
	done.Wait()
	for _, f := range replicas {
		caughtUp(t, f)
	}
	require.Equal(t, contents(replicas[0].Index()), contents(replicas[1].Index()))
	require.Equal(t, records(t, replicas[0]), records(t, replicas[1]))
}

func TestLabelsAcrossLostAcknowledgements(t *testing.T) {
	t.Parallel()
	f := openQueue(t, testConfig(t)).Feedback()
	f.publish = func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		switch rand.IntN(6) {
		case 0:
			return nil, errors.New("it never arrived")
		case 1:
			_, err := f.js.PublishMsg(ctx, msg, opts...)
			return nil, errors.Join(errors.New("it arrived, but we do not know"), ignore(err))
		}
		return f.js.PublishMsg(ctx, msg, opts...)
	}
	accepted := 0
	for accepted < 200 { // a batch may fail altogether; then it is sent again
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		receipt, err := f.Append(ctx, batchOf(some(accepted, 20)...), "")
		cancel()
		if err != nil {
			require.ErrorIs(t, err, feedback.ErrUnavailable)
			continue
		}
		require.Equal(t, 20, receipt.Accepted+receipt.Duplicates)
		accepted += 20
	}
	f.publish = f.js.PublishMsg
	accepts(t, f, 0, 200, some(0, 200)...)
	require.Len(t, records(t, f), 200)
}

func ignore(error) error { return nil }

// An acknowledgement that is lost once makes no duplicate of what was accepted.
func TestOneLostAcknowledgementIsRecognised(t *testing.T) {
	t.Parallel()
	f := openQueue(t, testConfig(t)).Feedback()
	var mu sync.Mutex
	seen := map[string]bool{}
	f.publish = func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		mu.Lock()
		first := !seen[msg.Subject]
		seen[msg.Subject] = true
		mu.Unlock()
		ack, err := f.js.PublishMsg(ctx, msg, opts...)
		if first {
			return nil, errors.Join(nats.ErrTimeout, ignore(err))
		}
		return ack, err
	}
	accepts(t, f, 100, 0, some(0, 100)...)
	clear(seen)
	accepts(t, f, 0, 100, some(0, 100)...)
	clear(seen)
	accepts(t, f, 1, 0, labelled("r1", bag.Violation))
}
