package rewardmodel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/internal/trace"
)

// The maximum numbers of events and of spans that describe one request.
const (
	maxEvaluations = 64 // of its results; the first ones
	maxBatchSpans  = 32 // of the batches that had its utterances; the first ones
)

// The attributes of these spans and events that no other package sets.
const (
	attributeBatches        = attribute.Key("assay.batches") // that had utterances of the request
	attributeBatchTokens    = attribute.Key("assay.batch.tokens")
	attributeBatchSequences = attribute.Key("assay.batch.sequences")
	attributeBatchRequests  = attribute.Key("assay.batch.requests") // that shared the batch
	attributeOffsetUnit     = attribute.Key("assay.offset_unit")
	attributeAspect         = attribute.Key("assay.aspect") // that decides
	attributeViolation      = attribute.Key("assay.violation")
	attributeThreshold      = attribute.Key("assay.threshold")
	attributeWitnessStart   = attribute.Key("assay.witness.start")
	attributeWitnessEnd     = attribute.Key("assay.witness.end")
	attributeWitnessMessage = attribute.Key("assay.witness.message")
)

// evaluationName is gen_ai.evaluation.name of all results, and its labels.
const (
	evaluationName = "compliance"
	labelCompliant = "compliant"
	labelViolation = "violation"
)

// startSpan describes a request that is about to be scored.
func (s *Scorer) startSpan(span oteltrace.Span, req Request) {
	if span.IsRecording() {
		span.SetAttributes(trace.ModelVersion.String(s.config.Version), trace.Responses.Int(len(req.Responses)), trace.Priority.String(string(req.effectivePriority())))
	}
}

// endSpan describes the outcome of a request, and ends its span.
func endSpan(span oteltrace.Span, answer ScoreResponse, err error) {
	if !span.IsRecording() {
		return
	}
	if err != nil {
		trace.Fail(span, failure(err))
	} else {
		DescribeAnswer(span, answer)
	}
	span.End()
}

// DescribeAnswer adds an event to span for each of the first results of an answer,
// without their texts.
func DescribeAnswer(span oteltrace.Span, answer ScoreResponse) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attributeOffsetUnit.String(string(answer.OffsetUnit)))
	for _, r := range answer.Results[:min(len(answer.Results), maxEvaluations)] {
		span.AddEvent("gen_ai.evaluation.result", oteltrace.WithAttributes(evaluation(r)...))
	}
}

// evaluation describes a result, without its text.
func evaluation(r Result) []attribute.KeyValue {
	label := labelViolation
	if r.Compliant {
		label = labelCompliant
	}
	out := []attribute.KeyValue{
		semconv.GenAIEvaluationName(evaluationName), semconv.GenAIEvaluationScoreValue(r.Reward), semconv.GenAIEvaluationScoreLabel(label),
		semconv.GenAIResponseID(r.ID), attributeViolation.Float64(r.Violation), attributeThreshold.Float64(r.Threshold),
	}
	if r.Aspect != "" {
		out = append(out, attributeAspect.String(r.Aspect))
	}
	if w := r.Witness; w != nil {
		out = append(out, attributeWitnessStart.Int(w.Start), attributeWitnessEnd.Int(w.End))
		if w.Message != nil {
			out = append(out, attributeWitnessMessage.Int(*w.Message))
		}
	}
	return out
}

// jobTrace is what a job waited for. Its methods do nothing for a nil jobTrace, that of
// a request without a span.
type jobTrace struct {
	first    time.Time    // batch that held one of its sequences; zero: none did
	recorded []*batchCall // the first ones that held its sequences
	calls    int          // and how many there were
}

// newJobTrace describes a job in the span of its request. It returns nil if span does
// not record.
func newJobTrace(span oteltrace.Span, j *job, bags []bag) *jobTrace {
	if !span.IsRecording() {
		return nil
	}
	utterances := 0
	for _, b := range bags {
		utterances += len(b.utterances)
	}
	span.SetAttributes(trace.Utterances.Int(utterances), trace.Tokens.Int(j.Tokens()))
	return &jobTrace{}
}

// scheduled records when the first batch of the job was formed.
func (t *jobTrace) scheduled(now time.Time) {
	if t != nil {
		t.first = now
	}
}

// called records a call of the model.
func (t *jobTrace) called(c *batchCall) {
	if t == nil {
		return
	}
	if t.calls++; len(t.recorded) < maxBatchSpans {
		t.recorded = append(t.recorded, c)
	}
}

// batchCall is one call of the model for a batch. A request has a span for each call of its own,
// not a link to one of all requests in the batch: its trace is then complete, whichever
// of them are sampled.
type batchCall struct {
	formed, start, end time.Time // end: its margins are known
	took               time.Duration
	sequences, tokens  int
	requests           int
	failed             bool
}

// recordSpans records the time that the job was queued, and its calls of the model.
// Call it when the job has ended.
func (j *job) recordSpans(ctx context.Context) {
	t := j.trace
	if t == nil || j.admitted.IsZero() {
		return
	}
	_, queued := trace.Begin(ctx, "queue", oteltrace.WithTimestamp(j.admitted))
	if t.first.IsZero() { // canceled before
		queued.End()
	} else {
		queued.End(oteltrace.WithTimestamp(t.first))
	}
	for _, c := range t.recorded {
		c.record(ctx)
	}
	oteltrace.SpanFromContext(ctx).SetAttributes(attributeBatches.Int(t.calls))
}

func (c *batchCall) record(ctx context.Context) {
	ctx, batch := trace.Begin(ctx, "batch", oteltrace.WithTimestamp(c.formed), oteltrace.WithAttributes(
		attributeBatchSequences.Int(c.sequences), attributeBatchTokens.Int(c.tokens), attributeBatchRequests.Int(c.requests)))
	_, model := trace.Begin(ctx, "model", oteltrace.WithTimestamp(c.start))
	if c.failed {
		trace.Fail(model, reasonModel)
		trace.Fail(batch, reasonModel)
	}
	model.End(oteltrace.WithTimestamp(c.start.Add(c.took)))
	batch.End(oteltrace.WithTimestamp(c.end))
}

// failure is error.type of a request that ends with err.
func failure(err error) string {
	if input, ok := errors.AsType[*InputError](err); ok {
		return input.Kind.String()
	}
	return reasonOf(err)
}
