package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/internal/trace"
	"assay/internal/trace/spantest"
	"assay/rewardmodel/batching"
)

// scored returns the spans of one request.
func scored(t *testing.T, r spantest.Recorder, s *Scorer, req Request) (spans map[string][]sdktrace.ReadOnlySpan, err error) {
	t.Helper()
	ctx, root := r.Tracer.Continue(t.Context(), "root", oteltrace.SpanKindServer, "", "")
	_, err = s.Score(ctx, req)
	root.End()
	spans = map[string][]sdktrace.ReadOnlySpan{}
	for _, span := range r.Ended() {
		if span.SpanContext().TraceID() == root.SpanContext().TraceID() {
			spans[span.Name()] = append(spans[span.Name()], span)
		}
	}
	return spans, err
}

func requireAttributes(t *testing.T, got []attribute.KeyValue, want map[string]string) {
	t.Helper()
	have := spantest.Attributes(got)
	for name, value := range want {
		if have[name] != value {
			t.Errorf("%s is %q, want %q (of %v)", name, have[name], value, have)
		}
	}
}

func TestSpans(t *testing.T) {
	r := spantest.New(t)
	s := newScorer(t, ScorerConfig{CacheBytes: 1 << 20}, wordMargin(map[string]float32{"stink.": 6}))
	req := responses("Hello there. You stink.", "Hello there.", "")
	req.Priority = PriorityInteractive
	for i := range req.Responses {
		req.Responses[i].ID = fmt.Sprint(i)
	}
	spans, err := scored(t, r, s, req)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		count  int
		parent string
	}{"root": {1, ""}, "score": {1, "root"}, "tokenize": {1, "score"}, "queue": {1, "score"}, "batch": {1, "score"}, "model": {1, "batch"}} {
		if len(spans[name]) != want.count {
			t.Fatalf("%d spans %s, want %d", len(spans[name]), name, want.count)
		}
		for _, span := range spans[name] {
			if want.parent != "" && span.Parent().SpanID() != spans[want.parent][0].SpanContext().SpanID() {
				t.Errorf("the parent of %s is not %s", name, want.parent)
			}
			if span.EndTime().Before(span.StartTime()) {
				t.Errorf("%s ends before it starts", name)
			}
		}
	}
	if model, batch := spans["model"][0], spans["batch"][0]; model.StartTime().Before(batch.StartTime()) || batch.EndTime().Before(model.EndTime()) {
		t.Error("the call of the model is not within its batch")
	}
	score := spans["score"][0]
	requireAttributes(t, score.Attributes(), map[string]string{
		"assay.model.version": "v1", "assay.responses": "3", "assay.utterances": "3", "assay.tokens": "8", "assay.priority": "interactive",
		"assay.offset_unit": "codepoint", "assay.batches": "1",
	})
	requireAttributes(t, spans["batch"][0].Attributes(), map[string]string{"assay.batch.sequences": "2", "assay.batch.tokens": "8", "assay.batch.requests": "1"})
	if len(score.Events()) != 3 {
		t.Fatalf("%d events, want 3", len(score.Events()))
	}
	first, empty := score.Events()[0], score.Events()[2]
	if first.Name != "gen_ai.evaluation.result" {
		t.Errorf("the event is %q", first.Name)
	}
	requireAttributes(t, first.Attributes, map[string]string{
		"gen_ai.evaluation.name": "compliance", "gen_ai.evaluation.score.label": "violation", "gen_ai.response.id": "0",
		"assay.witness.start": "13", "assay.witness.end": "23",
	})
	requireAttributes(t, score.Events()[1].Attributes, map[string]string{"gen_ai.evaluation.score.label": "compliant", "gen_ai.response.id": "1"})
	if _, ok := spantest.Attributes(empty.Attributes)["assay.witness.start"]; ok {
		t.Error("an empty response has a witness")
	}
	for _, found := range spans {
		if text := fmt.Sprint(found[0].Attributes(), found[0].Events(), found[0].Status()); strings.Contains(text, "stink") || strings.Contains(text, "Hello") {
			t.Errorf("a span has text: %s", text)
		}
	}

	// The second time everything is cached.
	if spans, err = scored(t, r, s, req); err != nil {
		t.Fatal(err)
	}
	if len(spans["score"]) != 1 || len(spans["batch"])+len(spans["queue"]) != 0 {
		t.Errorf("a cached request has spans of batches: %v", spans)
	}
	requireAttributes(t, spans["score"][0].Attributes(), map[string]string{"assay.tokens": "0"})
}

// Neither results nor batches without bound describe one request.
func TestSpansAreBounded(t *testing.T) {
	r := spantest.New(t)
	s := newScorer(t, ScorerConfig{MaxBatchTokens: 1}, wordMargin(nil))
	var texts []string
	for i := range 2 * maxEvaluations {
		texts = append(texts, fmt.Sprint("Response ", i, "."))
	}
	spans, err := scored(t, r, s, responses(texts...))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(spans["score"][0].Events()); got != maxEvaluations {
		t.Errorf("%d events, want %d", got, maxEvaluations)
	}
	if got := len(spans["batch"]); got != maxBatchSpans {
		t.Errorf("%d spans of batches, want %d", got, maxBatchSpans)
	}
	requireAttributes(t, spans["score"][0].Attributes(), map[string]string{"assay.batches": fmt.Sprint(2 * maxEvaluations)})
}

func TestSpansOfFailures(t *testing.T) {
	secret := errors.New("the error has the text of the response")
	failing := modelFunc(func([]Sequence) ([]float32, error) { return nil, secret })
	pinned := responses("Hello.")
	pinned.Model = "secret"
	for name, test := range map[string]struct {
		model Model
		req   Request
		ctx   bool // canceled
		want  string
	}{
		"model":    {model: failing, req: responses("Hello."), want: "model"},
		"pinned":   {model: wordMargin(nil), req: pinned, want: "not_found"},
		"invalid":  {model: wordMargin(nil), req: Request{}, want: "unprocessable"},
		"canceled": {model: wordMargin(nil), req: responses("Hello."), ctx: true, want: "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			r := spantest.New(t)
			s := newScorer(t, ScorerConfig{}, test.model)
			ctx, root := r.Tracer.Continue(t.Context(), "root", oteltrace.SpanKindServer, "", "")
			defer root.End()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if test.ctx {
				cancel()
			}
			if _, err := s.Score(ctx, test.req); err == nil {
				t.Fatal("it did not fail")
			}
			var failed []string
			for _, span := range r.Ended() {
				if span.Status().Code == codes.Error {
					failed = append(failed, span.Name())
					requireAttributes(t, span.Attributes(), map[string]string{"error.type": test.want})
				}
				if len(span.Events()) > 0 || strings.Contains(fmt.Sprint(span.Attributes(), span.Status()), "secret") || span.Status().Description != "" {
					t.Errorf("%s quotes the error", span.Name())
				}
			}
			want := []string{"score"}
			if test.want == "model" {
				want = []string{"model", "batch", "score"}
			}
			if !slices.Equal(failed, want) {
				t.Errorf("%q failed, want %q", failed, want)
			}
		})
	}
}

// Requests that share a batch each have a span of it.
func TestRequestsThatShareABatch(t *testing.T) {
	r := spantest.New(t)
	entered, release := make(chan struct{}, 8), make(chan struct{})
	s := newScorer(t, ScorerConfig{}, modelFunc(func(batch []Sequence) ([]float32, error) {
		entered <- struct{}{}
		<-release
		return make([]float32, len(batch)), nil
	}))
	results := make(chan map[string][]sdktrace.ReadOnlySpan, 3)
	run := func(text string) {
		spans, err := scored(t, r, s, responses(text))
		if err != nil {
			t.Error(err)
		}
		results <- spans
	}
	go run("First.")
	<-entered // the model is busy, so that the next two wait
	go run("Second.")
	go run("Third.")
	for queued := 0; queued < 2; runtime.Gosched() {
		s.mu.Lock()
		queued = s.queue.Waiting()
		s.mu.Unlock()
	}
	close(release)
	shared := 0
	for range 3 {
		spans := <-results
		if len(spans["batch"]) != 1 {
			t.Fatalf("%d spans of batches, want 1", len(spans["batch"]))
		}
		if spantest.Attributes(spans["batch"][0].Attributes())["assay.batch.requests"] == "2" {
			shared++
		}
	}
	if shared != 2 {
		t.Errorf("%d requests shared a batch, want 2", shared)
	}
}

// Without a span that records, tracing allocates nothing.
func TestNoSpansAllocateNothing(t *testing.T) {
	never := spantest.Sampled(t, sdktrace.NeverSample())
	unsampled, _ := never.Tracer.Continue(t.Context(), "root", oteltrace.SpanKindServer, "", "")
	s := newScorer(t, ScorerConfig{}, wordMargin(nil))
	req, j := responses("Hello."), newJob(batching.Interactive, 1)
	for name, ctx := range map[string]context.Context{"off": t.Context(), "not sampled": unsampled} {
		allocations := testing.AllocsPerRun(100, func() {
			ctx, span := trace.Begin(ctx, "score")
			s.startSpan(span, req)
			_, tokenizing := trace.Begin(ctx, "tokenize")
			tokenizing.End()
			j.trace = newJobTrace(oteltrace.SpanFromContext(ctx), j, nil)
			j.trace.scheduled(time.Time{})
			j.trace.called(nil)
			j.recordSpans(ctx)
			endSpan(span, ScoreResponse{}, nil)
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations per request", name, allocations)
		}
	}
	if len(never.Ended()) != 0 {
		t.Error("spans that are not sampled were recorded")
	}
}

// The cost of the spans of a request of one response, which is cached.
func BenchmarkSpans(b *testing.B) {
	for _, mode := range []struct {
		name    string
		sampler sdktrace.Sampler // nil: off
	}{{"off", nil}, {"not sampled", sdktrace.NeverSample()}, {"sampled", sdktrace.AlwaysSample()}} {
		b.Run(mode.name, func(b *testing.B) {
			var tracer *trace.Tracer
			if mode.sampler != nil { // a provider without a processor
				tracer = trace.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSampler(mode.sampler)))
			}
			s := newScorer(b, ScorerConfig{CacheBytes: 1 << 20}, wordMargin(nil))
			req := responses("Have a good trip. Do not forget the keys.")
			b.ReportAllocs()
			for b.Loop() {
				ctx, span := tracer.Continue(b.Context(), "root", oteltrace.SpanKindServer, "", "")
				if _, err := s.Score(ctx, req); err != nil {
					b.Fatal(err)
				}
				span.End()
			}
		})
	}
}
