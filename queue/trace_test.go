package queue

import (
	"context"
	"testing"

	"assay/internal/trace"
	"assay/queue/internal/jstest"
	"assay/rewardmodel"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// The trace of a request or a streamed response is the exemplar of what scoring it
// observes.
func TestScoringHasTheTraceOfTheMessage(t *testing.T) {
	t.Parallel()
	const id = "0af7651916cd43dd8448eb211c80319c"
	observed := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "observed", Buckets: []float64{1}}, []string{"id"})
	q := startQueue(t, testConfig(t), scorerFunc(func(ctx context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
		trace.Observe(ctx, observed.WithLabelValues(item.ID), 0.5)
		return good(ctx, item)
	}))
	for name, header := range map[string]string{"plain": "", "lowercase": "traceparent", "canonical": "Traceparent"} {
		headers := nats.Header{}
		if header != "" {
			headers.Set(header, "00-"+id+"-b7ad6b7169203331-01")
		}
		request := &nats.Msg{Subject: SubjectScore, Header: headers, Data: []byte(`{"responses":[{"id":"request ` + name + `","response":"Hello."}]}`)}
		_, err := q.nc.RequestMsg(request, jstest.Timeout)
		require.NoError(t, err)
		streamed := &nats.Msg{Subject: SubjectResponses + ".a", Header: headers, Data: []byte(`{"id":"stream ` + name + `","response":"Hello."}`)}
		_, err = q.js.PublishMsg(t.Context(), streamed)
		require.NoError(t, err)
	}
	awaitEmpty(t, q)

	registry := prometheus.NewRegistry()
	registry.MustRegister(observed)
	families, err := registry.Gather()
	require.NoError(t, err)
	traces := map[string]string{}
	for _, m := range families[0].GetMetric() {
		name := m.GetLabel()[0].GetValue()
		traces[name] = ""
		for _, l := range m.GetHistogram().GetBucket()[0].GetExemplar().GetLabel() {
			traces[name] += l.GetValue()
		}
	}
	require.Equal(t, map[string]string{
		"request plain": "", "request lowercase": id, "request canonical": id,
		"stream plain": "", "stream lowercase": id, "stream canonical": id,
	}, traces)
}
