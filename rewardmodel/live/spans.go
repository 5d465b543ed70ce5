package live

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/internal/trace"
	"assay/rewardmodel"
)

// maxVerdictEvents is how many verdicts the span of a session describes; the first ones.
const maxVerdictEvents = 64

// The attributes of the verdicts in the span of a session.
const (
	attributeIndex     = attribute.Key("assay.utterance.index")
	attributeStart     = attribute.Key("assay.utterance.start")
	attributeEnd       = attribute.Key("assay.utterance.end")
	attributeViolation = attribute.Key("assay.violation") // of the utterance
	attributeCompliant = attribute.Key("assay.compliant") // the response so far
	attributeStop      = attribute.Key("assay.stop")
)

// sessionSpan is the span of a session, from its Open to its end. Its parent is the
// request that opened it.
type sessionSpan struct {
	oteltrace.Span
	verdicts int // with those that it does not describe
}

func beginSpan(ctx context.Context) sessionSpan {
	_, span := trace.Begin(ctx, "live session")
	return sessionSpan{Span: span}
}

// observe describes verdicts, without their text.
func (s *sessionSpan) observe(events []rewardmodel.LiveEvent) {
	if !s.IsRecording() {
		return
	}
	for _, e := range events {
		switch {
		case e.Reset:
			s.AddEvent("assay.reset", oteltrace.WithAttributes(attributeIndex.Int(e.Utterance.Index)))
			continue
		case e.Utterance.Provisional:
			continue
		}
		if s.verdicts++; s.verdicts <= maxVerdictEvents {
			s.AddEvent("assay.verdict", oteltrace.WithAttributes(
				attributeIndex.Int(e.Utterance.Index), attributeStart.Int(e.Utterance.Start), attributeEnd.Int(e.Utterance.End),
				attributeViolation.Float64(e.Utterance.Violation), attributeCompliant.Bool(e.Compliant), attributeStop.Bool(e.Stop)))
		}
	}
	s.SetAttributes(trace.Utterances.Int(s.verdicts))
}

// end ends the span.
func (s *sessionSpan) end(outcome string) {
	if !s.IsRecording() {
		return
	}
	s.SetAttributes(trace.Outcome.String(outcome))
	if outcome == outcomeFailed {
		trace.Fail(s.Span, outcome)
	}
	s.End()
}
