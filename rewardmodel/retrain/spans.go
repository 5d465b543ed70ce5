package retrain

import (
	"context"
	"errors"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/internal/trace"
)

// The attributes of the span of a training run.
const (
	attributeTraining = attribute.Key("assay.training.id")      // also in the log, the events and the record of the model
	attributeTrigger  = attribute.Key("assay.training.trigger") // why it was started
	attributeAttempt  = attribute.Key("assay.training.attempt") // each has a trace; more than 1: resumed
	attributeMethod   = attribute.Key("assay.training.method")
	attributeBags     = attribute.Key("assay.training.bags")
	attributeHeldOut  = attribute.Key("assay.training.held_out") // bags that the gate used
	attributePromote  = attribute.Key("assay.gate.promote")
)

// Outcomes and failures of an attempt that has no Result.
const (
	outcomeInterrupted = "interrupted" // the process is stopping, or lost the lease; another attempt resumes it
	outcomeRetried     = "retried"     // a retryable error
	reasonFailed       = "failed"
)

// beginSpan starts the span of an attempt at a training run, in a trace of its own.
func (l *Loop) beginSpan(ctx context.Context, s Status) (context.Context, oteltrace.Span) {
	ctx, span := l.cfg.Tracer.Continue(ctx, "training run", oteltrace.SpanKindInternal, "", "")
	if span.IsRecording() {
		span.SetAttributes(attributeTraining.String(s.ID), attributeTrigger.String(string(s.Trigger)), attributeAttempt.Int(s.Attempt))
	}
	return ctx, span
}

// describeSpan describes what a training run has done before it is published.
func describeSpan(ctx context.Context, j *job, candidate Model, v Verdict) {
	if span := oteltrace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attributeMethod.String(candidate.Method), trace.ModelVersion.String(candidate.Version),
			attributeBags.Int(j.Data.Bags), attributeHeldOut.Int(j.Data.HeldOut), attributePromote.Bool(v.Promote))
	}
}

// endSpan ends the span of an attempt. The reasons stay in the log: they may quote a
// response.
func endSpan(span oteltrace.Span, out Outcome, err error) {
	if !span.IsRecording() {
		return
	}
	outcome := string(out.Result)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, ErrLeaseLost):
		outcome = outcomeInterrupted
	case err != nil:
		outcome = outcomeRetried
	}
	span.SetAttributes(trace.Outcome.String(outcome))
	if err != nil || out.Result == ResultFailed {
		trace.Fail(span, outcome)
	}
	span.End()
}

// step runs a step of a training run in a span.
func step[T any](ctx context.Context, name string, run func(context.Context) (T, error)) (T, error) {
	ctx, span := trace.Begin(ctx, name)
	defer span.End()
	out, err := run(ctx)
	if err != nil {
		trace.Fail(span, reasonFailed)
	}
	return out, err
}

// logOf adds the training run and its trace to a logger.
func logOf(log zerolog.Logger, training string, span oteltrace.Span) zerolog.Logger {
	with := log.With().Str("training", training)
	if span.IsRecording() {
		with = with.Str("traceparent", trace.Traceparent(span))
	}
	return with.Logger()
}
