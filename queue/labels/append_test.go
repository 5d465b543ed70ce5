package labels_test

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

	"assay/queue/embedded"
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

func TestFeedbackOfOneRater(t *testing.T) {
	t.Parallel()
	f := queuetest.Open(t, queuetest.Config(t)).Labels()
	labelstest.Accepts(t, f, 100, 0, labelstest.Some(0, 100)...)
	labelstest.Accepts(t, f, 0, 100, labelstest.Some(0, 100)...)
	labelstest.Accepts(t, f, 50, 50, labelstest.Some(50, 100)...)

	// Two labels of one id in one batch, in order; a correction and its reversal.
	labelstest.Accepts(t, f, 2, 1, labelstest.Labeled("x", bag.Compliant), labelstest.Labeled("x", bag.Compliant), labelstest.Labeled("x", bag.Violation))
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("x", bag.Compliant))
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("x", bag.Violation))
	labelstest.Accepts(t, f, 0, 1, labelstest.Labeled("x", bag.Violation))
	require.Equal(t, bag.Violation, labelstest.Records(t, f)["x/"].Record.Bag.Label)

	// A prompt that comes later is stored.
	withPrompt := labelstest.Labeled("x", bag.Violation)
	withPrompt.Prompt = "How do I do it?"
	labelstest.Accepts(t, f, 1, 0, withPrompt)
	labelstest.Accepts(t, f, 0, 2, withPrompt, labelstest.Labeled("x", bag.Violation))
	require.Equal(t, withPrompt.Prompt, labelstest.Records(t, f)["x/"].Record.Bag.Prompt)

	// A later time corrects; an earlier one is a duplicate.
	at := time.Date(2026, 3, 1, 12, 0, 0, 1, time.FixedZone("", 7200))
	timed := func(label bag.Label, d time.Duration) bag.Bag {
		b := labelstest.Labeled("timed", label)
		at := at.Add(d)
		b.Time = &at
		return b
	}
	labelstest.Accepts(t, f, 1, 0, timed(bag.Compliant, 0))
	labelstest.Accepts(t, f, 0, 1, timed(bag.Violation, -time.Hour))
	labelstest.Accepts(t, f, 1, 0, timed(bag.Compliant, time.Nanosecond))

	other := labelstest.Labeled("x", bag.Violation)
	other.Response = "Another text."
	labelstest.Rejects(t, f, feedback.CodeConflict, "unique id", other)
	large := labelstest.Labeled("large", bag.Violation)
	large.Response = strings.Repeat("x", embedded.DefaultMaxPayload)
	labelstest.Rejects(t, f, feedback.CodeTooLarge, "maximum payload", large)

	all := labelstest.Records(t, f)
	require.Len(t, all, 152)
	record := all["timed/"].Record
	require.Equal(t, "ann", record.By)
	require.True(t, record.Bag.Time.Equal(at.Add(1)))
	require.WithinDuration(t, time.Now(), record.Received, jstest.Timeout)
	require.EqualValues(t, 152, f.Index().Stats(feedback.Split{Share: 0.2}, 0).Records)
}

// Labels may name aspects that no model has yet, but not any number of them, also within one batch.
func TestFeedbackLimitsAspects(t *testing.T) {
	t.Parallel()
	f := queuetest.Open(t, queuetest.Config(t)).Labels()
	named := func(aspect string) bag.Bag {
		b := labelstest.Labeled("of "+aspect, "")
		b.Labels = map[string]bag.Label{aspect: bag.Violation}
		return b
	}
	var all []bag.Bag
	for i := range feedback.MaxAspects {
		all = append(all, named(fmt.Sprint("a", i)))
	}
	labelstest.Accepts(t, f, feedback.MaxAspects, 0, all...)
	labelstest.Rejects(t, f, feedback.CodeInvalid, `labels: "new" is a new aspect`, named("new"))
	labelstest.Accepts(t, f, 0, 1, all[5])
}

func TestFeedbackKeepsRejectionsInOrder(t *testing.T) {
	t.Parallel()
	f := queuetest.Open(t, queuetest.Config(t)).Labels()
	batch := feedback.Batch{
		Items:    []feedback.Entry{{Index: 1, Item: feedback.Item{Bag: bag.Bag{ID: "u", Label: bag.Compliant}, ResponseID: "u"}}},
		Rejected: []feedback.Rejection{{Index: 0, Code: feedback.CodeInvalid}, {Index: 2, Code: feedback.CodeInvalid}},
	}
	receipt, err := f.Append(t.Context(), batch, "")
	require.NoError(t, err)
	require.Len(t, receipt.Rejected, 3)
	require.Equal(t, feedback.CodeUnknown, receipt.Rejected[1].Code)
	require.Contains(t, receipt.Rejected[1].Message, "keep-scored")
	empty, err := f.Append(t.Context(), feedback.Batch{}, "")
	require.NoError(t, err)
	require.NotNil(t, empty.Rejected)
}

// Two processes receive overlapping batches of the same raters concurrently: each item
// is accepted by exactly one of them.
func TestFeedbackOfReplicas(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	replicas := []*labels.Log{q.Labels(), queuetest.Replica(t, q, cfg).Labels()}
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
					receipt := labelstest.Append(t, f, labelstest.Some(start, size)...)
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
	require.Len(t, labelstest.Records(t, replicas[0]), ids)
	labelstest.CaughtUp(t, replicas[1])
	require.Equal(t, labelstest.Contents(replicas[0].Index()), labelstest.Contents(replicas[1].Index()))
}

// Of several texts that are sent under one id at the same moment, one is stored, and the
// others are conflicts, as when they are sent one after the other.
func TestTextsUnderOneID(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		processes int
		items     int // of a request
		together  bool
	}{
		"two processes":             {2, 1, true},
		"two processes, in batches": {2, 2 * labels.MinBatch, true},
		"one process":               {1, 1, false},
		"one process, in batches":   {1, 2 * labels.MinBatch, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := queuetest.Config(t)
			q := queuetest.Open(t, cfg)
			logs := []*labels.Log{q.Labels(), q.Labels()}
			if tc.processes == 2 {
				logs[1] = queuetest.Replica(t, q, cfg).Labels()
			}
			for _, l := range logs {
				labelstest.CaughtUp(t, l)
			}
			for round := range 10 {
				if tc.together {
					publishTogether(t, logs)
				}
				var done sync.WaitGroup
				var accepted, conflicts atomic.Int64
				for i, l := range logs {
					done.Go(func() {
						bags := labelstest.Some(round*tc.items, tc.items)
						for b := range bags {
							bags[b].Response = fmt.Sprintf("Text %d of %s.", i, bags[b].ID)
							bags[b].Rater = fmt.Sprint(i)
						}
						receipt := labelstest.Append(t, l, bags...)
						accepted.Add(int64(receipt.Accepted))
						for _, r := range receipt.Rejected {
							require.Equal(t, feedback.CodeConflict, r.Code)
							conflicts.Add(1)
						}
					})
				}
				done.Wait()
				require.EqualValues(t, tc.items, accepted.Load())
				require.EqualValues(t, tc.items, conflicts.Load())
			}
			require.Len(t, labelstest.Records(t, logs[0]), 10*tc.items)
			for _, l := range logs {
				labelstest.CaughtUp(t, l)
			}
			require.Equal(t, labelstest.Contents(logs[0].Index()), labelstest.Contents(logs[1].Index()))
		})
	}
}

// publishTogether makes the first requests of two processes to store labels arrive at the
// same time, after both have compared them with their index.
func publishTogether(t *testing.T, logs []*labels.Log) {
	var arrived sync.WaitGroup
	arrived.Add(len(logs))
	for _, l := range logs {
		meet := sync.OnceFunc(func() {
			arrived.Done()
			arrived.Wait()
		})
		publish, publishBatch := l.Publish(), l.PublishBatch()
		l.SetPublish(func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
			meet()
			return publish(ctx, msg, opts...)
		})
		l.SetPublishBatch(func(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
			meet()
			return publishBatch(ctx, msgs)
		})
	}
}

// The condition that an id has no record holds although a message of another client is
// in its place.
func TestForeignMessageUnderAnID(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	for _, rater := range []string{"", "bob"} {
		_, err := jstest.JetStream(t, q.Conn()).Publish(t.Context(), labels.RecordSubject(feedback.HashOf("r1"), feedback.HashOf(rater)), []byte("not a record"))
		require.NoError(t, err)
	}
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("r1", bag.Violation))
	labelstest.Accepts(t, f, 0, 1, labelstest.Labeled("r1", bag.Violation))
}

// Raters correct labels at two processes concurrently. In any order, each accepted
// change replaces the one before it.
func TestCorrectionsAtTwoReplicas(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	replicas := []*labels.Log{q.Labels(), queuetest.Replica(t, q, cfg).Labels()}
	var done sync.WaitGroup
	for _, f := range replicas {
		for range 3 {
			done.Go(func() {
				for range 20 {
					b := labelstest.Labeled(fmt.Sprint("c", rand.IntN(5)), bag.Violation)
					b.Rater = fmt.Sprint(rand.IntN(2))
					if rand.IntN(2) == 0 {
						b.Label = bag.Compliant
					}
					require.Empty(t, labelstest.Append(t, f, b).Rejected)
				}
			})
		}
	}
	done.Wait()
	for _, f := range replicas {
		labelstest.CaughtUp(t, f)
	}
	require.Equal(t, labelstest.Contents(replicas[0].Index()), labelstest.Contents(replicas[1].Index()))
	require.Equal(t, labelstest.Records(t, replicas[0]), labelstest.Records(t, replicas[1]))
}

func TestLabelsAcrossLostAcknowledgements(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f, publish := q.Labels(), jstest.JetStream(t, q.Conn()).PublishMsg
	f.SetPublish(func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		switch rand.IntN(6) {
		case 0:
			return nil, errors.New("it never arrived")
		case 1:
			_, err := publish(ctx, msg, opts...)
			return nil, errors.Join(errors.New("it arrived, but we do not know"), ignore(err))
		}
		return publish(ctx, msg, opts...)
	})
	accepted := 0
	for accepted < 200 { // a batch that fails as a whole is sent again
		ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
		receipt, err := f.Append(ctx, labelstest.BatchOf(labelstest.Some(accepted, 20)...), "")
		cancel()
		if err != nil {
			require.ErrorIs(t, err, feedback.ErrUnavailable)
			continue
		}
		require.Equal(t, 20, receipt.Accepted+receipt.Duplicates)
		accepted += 20
	}
	f.SetPublish(publish)
	labelstest.Accepts(t, f, 0, 200, labelstest.Some(0, 200)...)
	require.Len(t, labelstest.Records(t, f), 200)
}

func ignore(error) error { return nil }

// A lost acknowledgement does not turn an accepted label into a duplicate.
func TestOneLostAcknowledgementIsRecognized(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f, publish := q.Labels(), jstest.JetStream(t, q.Conn()).PublishMsg
	var mu sync.Mutex
	seen := map[string]bool{}
	f.SetPublish(func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		mu.Lock()
		first := !seen[msg.Subject]
		seen[msg.Subject] = true
		mu.Unlock()
		ack, err := publish(ctx, msg, opts...)
		if first {
			return nil, errors.Join(nats.ErrTimeout, ignore(err))
		}
		return ack, err
	})
	labelstest.Accepts(t, f, 100, 0, labelstest.Some(0, 100)...)
	clear(seen)
	labelstest.Accepts(t, f, 0, 100, labelstest.Some(0, 100)...)
	clear(seen)
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("r1", bag.Violation))
}
