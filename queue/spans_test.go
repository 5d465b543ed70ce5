package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"assay/internal/trace"
	"assay/internal/trace/spantest"
	"assay/queue/internal/jstest"
	"assay/rewardmodel"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const (
	publisherTrace = "0af7651916cd43dd8448eb211c80319c"
	publisherSpan  = "b7ad6b7169203331"
)

// tracedConfig is a configuration whose spans r records.
func tracedConfig(t *testing.T, r spantest.Recorder) Config {
	cfg := testConfig(t)
	cfg.Worker.Tracer, cfg.Service.Tracer = r.Tracer, r.Tracer
	return cfg
}

// results returns the messages of a stream of results, by the id of their response.
func results(t *testing.T, q *Queue, stream, header string) map[string]nats.Header {
	t.Helper()
	s, err := q.js.Stream(t.Context(), stream)
	require.NoError(t, err)
	found := map[string]nats.Header{}
	for seq := uint64(1); ; seq++ {
		msg, err := s.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return found
		}
		require.NoError(t, err)
		found[msg.Header.Get(header)] = msg.Header
	}
}

// A streamed response continues the trace of its publisher, and its reward or dead
// letter the span that published it.
func TestSpansOfStreamedResponses(t *testing.T) {
	t.Parallel()
	r := spantest.New(t)
	q := startQueue(t, tracedConfig(t, r), scorerFunc(func(ctx context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
		_, span := trace.Begin(ctx, "score")
		span.End()
		if *item.Response == "secret" {
			return rewardmodel.Result{}, &rewardmodel.InputError{Field: "response", Message: "secret"}
		}
		return good(ctx, item)
	}))
	sampled, unsampled := "00-"+publisherTrace+"-"+publisherSpan+"-01", "00-"+publisherTrace+"-"+publisherSpan+"-00"
	for id, m := range map[string]struct{ traceparent, body string }{
		"new": {"", item("x")}, "continued": {sampled, item("x")}, "unsampled": {unsampled, item("x")}, "dead": {sampled, item("secret")},
	} {
		msg := &nats.Msg{Subject: SubjectResponses + ".a", Header: nats.Header{}, Data: []byte(m.body)}
		msg.Header.Set(jetstream.MsgIDHeader, id)
		if m.traceparent != "" {
			msg.Header.Set(HeaderTraceparent, m.traceparent)
			msg.Header.Set(HeaderTracestate, "vendor=1")
		}
		_, err := q.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	awaitEmpty(t, q)
	require.Eventually(t, func() bool { return len(r.Named("process "+SubjectResponses)) == 3 }, jstest.Timeout, time.Millisecond)

	rewards, dead := results(t, q, StreamRewards, jetstream.MsgIDHeader), results(t, q, StreamDead, HeaderMsgID)
	require.Equal(t, unsampled, rewards["a unsampled"].Get(HeaderTraceparent), "as before")
	for _, process := range r.Named("process " + SubjectResponses) {
		require.Equal(t, oteltrace.SpanKindConsumer, process.SpanKind())
		attributes := spantest.Attributes(process.Attributes())
		require.Equal(t, "nats", attributes["messaging.system"])
		require.Equal(t, SubjectResponses+".a", attributes["messaging.destination.name"])
		require.Equal(t, process.SpanContext().SpanID(), childOf(t, r, process, "score").Parent().SpanID())
		require.NotContains(t, fmt.Sprint(process.Attributes(), process.Status(), process.Events()), "secret")
		switch attributes["assay.outcome"] {
		case string(outcomeDeadLettered):
			require.Equal(t, codes.Error, process.Status().Code)
			published := childOf(t, r, process, "publish "+StreamDead)
			require.Equal(t, trace.Traceparent(oteltrace.SpanFromContext(contextOf(published))), dead["dead"].Get(HeaderTraceparent))
		case string(outcomeRewarded):
			id := "a new"
			if process.Parent().IsValid() {
				id = "a continued"
				require.Equal(t, publisherSpan, process.Parent().SpanID().String())
				require.Equal(t, "vendor=1", rewards[id].Get(HeaderTracestate))
			}
			published := childOf(t, r, process, "publish "+StreamRewards)
			require.Equal(t, oteltrace.SpanKindProducer, published.SpanKind())
			require.Equal(t, trace.Traceparent(oteltrace.SpanFromContext(contextOf(published))), rewards[id].Get(HeaderTraceparent))
		default:
			t.Errorf("the outcome is %q", attributes["assay.outcome"])
		}
	}
}

// contextOf returns a context with the identity of a span that has ended.
func contextOf(span sdktrace.ReadOnlySpan) context.Context {
	return oteltrace.ContextWithSpanContext(context.Background(), span.SpanContext())
}

// childOf returns the only child of a name that a span has.
func childOf(t *testing.T, r spantest.Recorder, parent sdktrace.ReadOnlySpan, name string) (found sdktrace.ReadOnlySpan) {
	t.Helper()
	for _, span := range r.Named(name) {
		if span.Parent().SpanID() == parent.SpanContext().SpanID() {
			require.Nil(t, found)
			found = span
		}
	}
	require.NotNil(t, found, "%s has no child %s", parent.Name(), name)
	return found
}

func TestSpansOfRequests(t *testing.T) {
	t.Parallel()
	r := spantest.New(t)
	q := startQueue(t, tracedConfig(t, r), scorerFunc(func(ctx context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
		if *item.Response == "secret" {
			return rewardmodel.Result{}, errors.New("secret")
		}
		return good(ctx, item)
	}))
	for i, text := range []string{"x", "secret"} {
		msg := &nats.Msg{Subject: SubjectScore, Header: nats.Header{}, Data: fmt.Appendf(nil, `{"responses":[%s]}`, item(text))}
		msg.Header.Set("Traceparent", "00-"+publisherTrace+"-"+publisherSpan+"-01")
		_, err := q.nc.RequestMsg(msg, jstest.Timeout)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(r.Named(SubjectScore)) == i+1 }, jstest.Timeout, time.Millisecond)
	}
	for i, span := range r.Named(SubjectScore) {
		require.Equal(t, oteltrace.SpanKindServer, span.SpanKind())
		require.Equal(t, publisherSpan, span.Parent().SpanID().String())
		require.Equal(t, i == 1, span.Status().Code == codes.Error)
		require.NotContains(t, fmt.Sprint(span.Attributes(), span.Status(), span.Events()), "secret")
	}
}

// A live session has one span, below the request that opened it and in its trace.
func TestSpanOfALiveSession(t *testing.T) {
	t.Parallel()
	r := spantest.New(t)
	cfg, scorer := liveConfig(t, tracedConfig(t, r), hashes{})
	q := startQueue(t, cfg, scorer)
	nc, err := nats.Connect(q.URL())
	require.NoError(t, err)
	defer nc.Close()
	msg := &nats.Msg{Subject: SubjectLive, Data: []byte(`{"open":{}}`), Header: nats.Header{}}
	msg.Header.Set(HeaderTraceparent, "00-"+publisherTrace+"-"+publisherSpan+"-01")
	reply, err := nc.RequestMsg(msg, jstest.Timeout)
	require.NoError(t, err)
	subject := lines(t, reply)[0]["subject"].(string)
	sendLive(t, nc, subject, `{"text":"One # sentence. Another"}`, 1)
	sendLive(t, nc, subject, `{"close":{}}`, 2)
	require.Eventually(t, func() bool { return len(r.Named("live session")) == 1 }, jstest.Timeout, time.Millisecond)
	session := r.Named("live session")[0]
	require.Equal(t, publisherTrace, session.SpanContext().TraceID().String())
	require.Len(t, session.Events(), 3, "two verdicts and the result")
	opened := 0
	for _, request := range r.Named(SubjectLive) {
		if request.SpanContext().SpanID() == session.Parent().SpanID() {
			opened++
			require.Equal(t, publisherSpan, request.Parent().SpanID().String())
		}
	}
	require.Equal(t, 1, opened)
}
