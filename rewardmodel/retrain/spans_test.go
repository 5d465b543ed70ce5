package retrain

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"assay/internal/trace/spantest"
)

// Each attempt at a training run is a trace, with its steps.
func TestSpansOfTrainingRuns(t *testing.T) {
	secret := errors.New("the error has the text of a response")
	for name, test := range map[string]struct {
		worker  func(context.Context) error
		verdict Verdict
		outcome string
		steps   []string
		failed  string // the step that fails
	}{
		"promoted": {verdict: Verdict{Promote: true, Better: true}, outcome: "promoted", steps: []string{"collect", "train", "gate", "publish"}},
		"rejected": {verdict: Verdict{Reason: secret.Error()}, outcome: "rejected", steps: []string{"collect", "train", "gate"}},
		"failed":   {worker: func(context.Context) error { return secret }, outcome: "failed", steps: []string{"collect", "train"}, failed: "train"},
	} {
		t.Run(name, func(t *testing.T) {
			r := spantest.New(t)
			f := newFleet()
			f.verdicts = []Verdict{test.verdict}
			f.label(0, 60)
			stop := f.start(t, "a", t.TempDir(), &process{worker: test.worker, tracer: r.Tracer})
			out := f.ended(t, 1)
			require.Eventually(t, func() bool { return len(r.Named("training run")) == 1 }, 20*time.Second, time.Millisecond)
			stop()
			run := r.Named("training run")[0]
			require.False(t, run.Parent().IsValid(), "a trace of its own")
			attributes := spantest.Attributes(run.Attributes())
			require.Equal(t, out.ID, attributes["assay.training.id"])
			require.Equal(t, "bags", attributes["assay.training.trigger"])
			require.Equal(t, "1", attributes["assay.training.attempt"])
			require.Equal(t, test.outcome, attributes["assay.outcome"])
			require.Equal(t, test.failed != "", run.Status().Code == codes.Error)
			if test.failed == "" {
				require.Equal(t, out.Version, attributes["assay.model.version"])
				m := f.models[out.Version]
				require.Equal(t, fmt.Sprint(m.Data.Bags), attributes["assay.training.bags"])
				require.Equal(t, fmt.Sprint(m.Data.HeldOut), attributes["assay.training.held_out"])
				require.Equal(t, m.Method, attributes["assay.training.method"])
			}
			var steps []string
			for _, span := range r.Ended() {
				require.NotContains(t, fmt.Sprint(span.Attributes(), span.Status(), span.Events()), "text of a response")
				if span.Parent().SpanID() == run.SpanContext().SpanID() {
					steps = append(steps, span.Name())
					require.Equal(t, span.Name() == test.failed, span.Status().Code == codes.Error, span.Name())
				}
			}
			require.Equal(t, test.steps, steps)
		})
	}
}

// A training run that another process has to resume is not a failure of the model.
func TestSpanOfAnInterruptedTrainingRun(t *testing.T) {
	r := spantest.New(t)
	f := newFleet()
	f.label(0, 60)
	entered := make(chan struct{})
	stop := f.start(t, "a", t.TempDir(), &process{tracer: r.Tracer, worker: func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}})
	<-entered
	stop()
	require.Equal(t, outcomeInterrupted, spantest.Attributes(r.Named("training run")[0].Attributes())["assay.outcome"])
}
