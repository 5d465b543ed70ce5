package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/registry"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// A request whose reply subject belongs to assay is neither executed nor replied to.
func TestRepliesGoToInboxesOnly(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	cfg, scorer := liveConfig(t, testConfig(t), hashes{})
	q := startQueue(t, cfg, scorer)
	f := q.Labels()
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("r1", bag.Violation))
	nc, err := nats.Connect(q.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	arrived := make(chan *nats.Msg, 100)

	body := map[string]string{SubjectScore: `{"responses":[{"response":"x"}]}`, labels.SubjectFeedback: `{"items":[{"id":"new","label":"violation","response":"x"}]}`,
		SubjectLive: `{"open":{}}`, q.service.live.prefix + "unknown": `{"text":"x"}`}
	targets := []string{tombstoneSubject(feedback.HashOf("r1")), recordSubject(feedback.HashOf("r1"), feedback.HashOf("")), registry.SubjectState + "current",
		SubjectRewards + ".victim", SubjectDead + ".invalid", registry.SubjectEvents + ".promoted", SubjectResponses + ".x", registry.SubjectNames + "x", "app.inbox.1", "INBOX.1"}
	for _, target := range targets {
		_, err := nc.ChanSubscribe(target, arrived)
		require.NoError(t, err)
	}
	for subject, body := range body {
		for _, target := range targets {
			require.NoError(t, nc.PublishRequest(subject, target, []byte(body)))
		}
		for _, prefix := range []string{"_INBOX", "_INBOX_labels"} { // of clients as they are documented
			client, err := nats.Connect(q.URL(), nats.CustomInboxPrefix(prefix))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			_, err = client.RequestWithContext(ctx, subject, []byte(`{"items":[]}`))
			require.NoError(t, err)
		}
	}
	require.NoError(t, nc.Flush())
	ignored := func(code string) float64 {
		return testutil.ToFloat64(q.metrics.requests.WithLabelValues(code)) + testutil.ToFloat64(q.metrics.batches.WithLabelValues(code)) +
			testutil.ToFloat64(q.metrics.live.WithLabelValues(code))
	}
	require.Eventually(t, func() bool { return ignored("400") >= float64(len(body)*len(targets)) }, jstest.Timeout, 5*time.Millisecond)
	require.NoError(t, q.Drain(ctx)) // every request has its reply
	require.NoError(t, nc.Flush())
	require.Empty(t, arrived)
	labelstest.CaughtUp(t, f)
	require.False(t, f.Index().Erased(feedback.HashOf("r1")))
	require.Len(t, labelstest.Records(t, f), 1, "and nothing is stored")

	for _, reply := range []string{"", "_INBOX.x.1", "_INBOX_app.x", "_R_.ab.1", "_GR_.ab.cd._INBOX.x"} {
		require.True(t, repliable(reply), reply)
	}
}
