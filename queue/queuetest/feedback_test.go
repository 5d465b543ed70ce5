package queuetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/labels"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

func someLabels(first, n int, label bag.Label) (batch feedback.Batch) {
	for i := range n {
		id := fmt.Sprint("r", first+i)
		batch.Items = append(batch.Items, feedback.Entry{Index: i,
			Item: feedback.Item{Bag: bag.Bag{ID: id, Label: label, Response: "The text of " + id + "."}}})
	}
	return batch
}

// send sends a batch until the store accepts it, as a client that gets a Retry-After.
func send(ctx context.Context, f *labels.Log, batch feedback.Batch) (feedback.Receipt, error) {
	for {
		receipt, err := f.Append(ctx, batch, "")
		if !errors.Is(err, feedback.ErrUnavailable) || ctx.Err() != nil {
			return receipt, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Labels that two replicas receive while the leader of the stream dies twice are all
// stored, and both replicas agree on them.
func TestFeedbackOfAClusterSurvivesItsLeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("kills nodes of a cluster, which takes half a minute")
	}
	const ids, size = 400, 20
	c := queuetest.StartCluster(t, 3)
	var replicas [2]*labels.Log
	for i := range replicas {
		replicas[i] = queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: c.URL()},
			Streams: queue.StreamsConfig{Replicas: 3, KeepScored: time.Hour}}).Labels()
	}
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	for round, label := range []bag.Label{bag.Violation, bag.Compliant} {
		half := make(chan struct{})
		var once sync.Once
		var wg sync.WaitGroup
		for i, f := range replicas {
			wg.Go(func() {
				for first := 0; first < ids; first += size {
					start := first
					if i == 1 { // in reverse order, so that the two overlap
						start = ids - size - first
					}
					receipt, err := send(ctx, f, someLabels(start, size, label))
					if err != nil || receipt.Accepted+receipt.Duplicates != size {
						t.Errorf("round %d: %+v, %v", round, receipt, err)
						once.Do(func() { close(half) })
						return
					}
					if first >= ids/4 {
						once.Do(func() { close(half) })
					}
				}
			})
		}
		<-half
		killed := c.Leader(labels.StreamFeedback)
		c.Kill(killed)
		wg.Wait()
		c.Restart(killed)
		c.Healthy(labels.StreamFeedback)
	}
	for i := range 5 {
		_, err := replicas[i%2].Erase(ctx, fmt.Sprint("r", i))
		require.NoError(t, err)
	}
	var seen [2]map[feedback.Hash]feedback.Bag
	for i, f := range replicas {
		require.NoError(t, f.CaughtUp(ctx))
		seen[i] = map[feedback.Hash]feedback.Bag{}
		for b := range f.Index().Bags(feedback.Split{Share: 0.2}) {
			require.False(t, b.Violation, "corrected")
			seen[i][b.ID] = b
		}
		records := 0
		for r, err := range f.Records(ctx, f.Index().Last()) {
			require.NoError(t, err)
			require.Equal(t, bag.Compliant, r.Record.Bag.Label)
			records++
		}
		require.Equal(t, ids-5, records)
	}
	require.Len(t, seen[0], ids-5)
	require.Equal(t, seen[0], seen[1])
}

// Of two texts that arrive under one id at two replicas at the same moment, a cluster
// stores one: while the first is replicated, the second waits.
func TestTextsUnderOneIDInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := queuetest.StartCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	var replicas [2]*labels.Log
	for i := range replicas {
		replicas[i] = queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: c.URL()}, Streams: queue.StreamsConfig{Replicas: 3}}).Labels()
		require.NoError(t, replicas[i].CaughtUp(ctx))
	}
	const rounds = 100
	for _, size := range []int{1, 40} { // as single messages, and as batches
		for round := range rounds {
			var receipts [2]feedback.Receipt
			var sending sync.WaitGroup
			for i, f := range replicas {
				sending.Go(func() {
					batch := someLabels((size*rounds+round)*size, size, bag.Violation)
					for j := range batch.Items {
						batch.Items[j].Rater, batch.Items[j].Response = fmt.Sprint(i), fmt.Sprintf("Text %d.", i)
					}
					var err error
					if receipts[i], err = f.Append(ctx, batch, ""); err != nil {
						t.Error(err)
					}
				})
			}
			sending.Wait()
			require.Equal(t, size, receipts[0].Accepted+receipts[1].Accepted)
			require.Equal(t, size, len(receipts[0].Rejected)+len(receipts[1].Rejected))
		}
	}
}
