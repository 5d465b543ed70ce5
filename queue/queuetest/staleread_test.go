package queuetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/labels"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// labelsOn opens the log of labels of a replica that is connected to one node only.
func labelsOn(t *testing.T, c *queuetest.Cluster, node int) *labels.Log {
	t.Helper()
	gate := c.Gate()
	for other := range 3 {
		if other != node {
			gate.Set(queuetest.Refusing, other)
		}
	}
	return queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: gate.URL()}, Streams: queue.StreamsConfig{Replicas: 3}}).Labels()
}

// leaderOfLabels creates the streams, and returns the node that leads the labels.
func leaderOfLabels(t *testing.T, c *queuetest.Cluster) int {
	t.Helper()
	labelsOn(t, c, 0)
	c.Healthy(labels.StreamFeedback)
	return c.Leader(labels.StreamFeedback)
}

// label stores a label.
func label(ctx context.Context, t *testing.T, f *labels.Log, id string) {
	t.Helper()
	item := feedback.Item{Bag: bag.Bag{ID: id, Rater: "ann", Label: bag.Violation, Response: "The text of " + id + "."}}
	receipt, err := send(ctx, f, feedback.Batch{Items: []feedback.Entry{{Item: item}}})
	require.NoError(t, err)
	require.Equal(t, 1, receipt.Accepted)
}

// A withdrawal finds a label that the server of its replica does not have yet.
func TestWithdrawalOnAServerThatIsBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster, which takes a quarter of a minute")
	}
	c := queuetest.StartPartitionable(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	leader := leaderOfLabels(t, c)
	behind := (leader + 1) % 3
	first, late := labelsOn(t, c, leader), labelsOn(t, c, behind)
	c.Isolate(behind, queuetest.Slow)
	for i := range 5 {
		id := fmt.Sprint("r", i)
		label(ctx, t, first, id)
		withdrawn, err := late.Withdraw(ctx, id, "ann", "")
		require.NoError(t, err)
		require.Equal(t, 1, withdrawn, id)
		withdrawn, err = first.Withdraw(ctx, id, "ann", "")
		require.NoError(t, err)
		require.Zero(t, withdrawn, id)
	}
	withdrawn, err := late.Withdraw(ctx, "unknown", "ann", "")
	require.NoError(t, err)
	require.Zero(t, withdrawn)
	c.Isolate(behind, queuetest.Passing)

	v, err := first.Verify(ctx)
	require.NoError(t, err)
	require.Equal(t, feedback.Verification{Withdrawn: 5, Through: v.Through, Damaged: v.Damaged}, v, "what confirms a withdrawal is no record")
	require.Empty(t, v.Damaged)
	require.Zero(t, first.Index().Stats(feedback.Split{}, 0).Records)
}

// A withdrawal is not acknowledged by what a server has that was the leader of the labels:
// one that is cut off from the others takes itself for it for some seconds after they have
// elected another one.
func TestWithdrawalOnALeaderThatWasReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for elections, which takes half a minute")
	}
	c := queuetest.StartPartitionable(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	leader := leaderOfLabels(t, c)
	old, others := labelsOn(t, c, leader), labelsOn(t, c, (leader+1)%3)
	require.NoError(t, old.CaughtUp(ctx))
	c.Isolate(leader, queuetest.Swallowing)
	label(ctx, t, others, "x") // when the others have elected another leader
	ask, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	withdrawn, err := old.Withdraw(ask, "x", "ann", "")
	require.ErrorIs(t, err, feedback.ErrUnavailable)
	require.Zero(t, withdrawn)
}
