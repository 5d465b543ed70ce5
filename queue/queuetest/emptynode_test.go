package queuetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/labels"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// longestElection is more than the 9 s after which a server without a leader wants to be
// elected.
const longestElection = 20 * time.Second

// A node that starts empty under its old name does not elect a node that lacks what the
// empty one had acknowledged: together they have no leader, until the third one is back.
func TestAnEmptyNodeElectsNobodyThatIsBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for elections, which takes a minute")
	}
	const size = 50
	c := queuetest.StartPartitionable(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	leader := leaderOfLabels(t, c)
	emptied, behind := (leader+1)%3, (leader+2)%3
	f := labelsOn(t, c, leader)
	c.Isolate(behind, queuetest.Refusing)
	receipt, err := send(ctx, f, someLabels(0, size, bag.Violation))
	require.NoError(t, err)
	require.Equal(t, size, receipt.Accepted)
	c.Lose(emptied)
	c.Kill(leader)
	c.Isolate(behind, queuetest.Passing)
	c.Start(emptied)

	nc, err := nats.Connect(c.URL(), nats.MaxReconnects(-1))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	led := func() bool {
		ask, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err := js.Publish(ask, labels.SubjectFeedback+".probe", nil)
		return err == nil
	}
	require.Never(t, led, longestElection, 100*time.Millisecond)

	c.Restart(leader)
	c.Healthy(labels.StreamFeedback)
	require.Eventually(t, func() bool { return f.Index().Stats(feedback.Split{}, 0).Records == size }, electionTimeout, 50*time.Millisecond)
	for node := range 3 {
		on := labelsOn(t, c, node)
		require.NoError(t, on.CaughtUp(ctx))
		require.Equal(t, size, on.Index().Stats(feedback.Split{}, 0).Records)
	}
}
