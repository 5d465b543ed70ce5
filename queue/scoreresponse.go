package queue

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"assay/internal/errorcode"
	"assay/queue/internal/js"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"

	"github.com/nats-io/nats.go"
)

// noTimeout is the timeout of a response whose publisher sets none.
const noTimeout = 100 * 365 * 24 * time.Hour

// handle completes one delivery, or negatively acknowledges it. A response is complete
// when its reward or dead letter is stored, and acknowledged only then: if the process
// dies at any point in between, the response is delivered again, and a second reward is
// recognized by its key.
//
// A panic, for example in decoding, fails only this response.
func (w *worker) handle(ctx context.Context, d *delivery) (o outcome) {
	ctx, span := w.beginSpan(ctx, d)
	defer func() { d.endSpan(span, o) }()
	defer func() {
		if value := recover(); value != nil {
			w.metrics.panics.WithLabelValues(kindResponse).Inc()
			o = w.fail(ctx, d, js.Recovered(value, kindResponse, w.log))
		}
	}()
	completed, err := w.completedBefore(ctx, d)
	if err != nil {
		return w.storeFailed(d, err)
	}
	if completed {
		w.acknowledge(d)
		return outcomeDuplicate
	}
	if d.refused != nil {
		return w.fail(ctx, d, d.refused)
	}
	item, err := d.item()
	if err != nil {
		return w.fail(ctx, d, err)
	}
	wait, err := timeout(d.msg.Headers().Get(HeaderTimeout), noTimeout)
	if err != nil {
		return w.fail(ctx, d, err)
	}
	waited, cancel := context.WithDeadline(ctx, d.published.Add(wait))
	defer cancel()
	if ctx.Err() == nil && waited.Err() != nil {
		return w.expire(ctx, d, wait)
	}
	answer, err := w.scorer.Score(waited, rewardmodel.Request{
		Responses: []rewardmodel.Item{item}, Priority: rewardmodel.PriorityBulk,
		Exclusive: d.exclusive, Memory: d.memory, Source: "nats " + SubjectResponses,
	})
	if err != nil && ctx.Err() == nil && waited.Err() != nil {
		return w.expire(ctx, d, wait)
	}
	if err == nil && len(answer.Results) != 1 {
		err = fmt.Errorf("%w: %d results for one response", rewardmodel.ErrModel, len(answer.Results))
	}
	if err != nil {
		return w.fail(ctx, d, err)
	}
	return w.reward(ctx, d, answer)
}

// expire gives up a response whose publisher no longer waits.
func (w *worker) expire(ctx context.Context, d *delivery, wait time.Duration) outcome {
	return w.deadLetter(ctx, d, ReasonExpired, &Error{Code: errorcode.DeadlineExceeded.HTTP(), Name: string(errorcode.DeadlineExceeded), Field: HeaderTimeout,
		Message: fmt.Sprintf("it was not scored within %v of its publication; raise the timeout, or omit the header", wait)})
}

// completedBefore reports whether the response has its result. It reads new results only
// for a response that may have been delivered before.
func (w *worker) completedBefore(ctx context.Context, d *delivery) (bool, error) {
	before := time.Time{}
	if d.mayHaveResult() {
		before = d.received
	}
	return w.results.Seen(ctx, d.identity(), before)
}

// item decodes the response and sets its id.
func (d *delivery) item() (rewardmodel.Item, error) {
	if strings.ContainsAny(d.tail, "*> \t\r\n") {
		return rewardmodel.Item{}, &rewardmodel.InputError{Kind: rewardmodel.KindInvalid, Field: "subject",
			Message: fmt.Sprintf("%q contains a wildcard or white space, which the subject of a reward cannot; publish on another", d.msg.Subject())}
	}
	item, err := wire.DecodeItem(d.msg.Data())
	item.ID = d.id(item.ID)
	if err == nil && item.TokenOffsets != nil {
		err = &rewardmodel.InputError{Kind: rewardmodel.KindInvalid, Field: "token_offsets",
			Message: "a streamed response has no options, and so no dense reward; omit token_offsets, or send a request on " + SubjectScore}
	}
	return item, err
}

// reward stores the result and acknowledges the response.
func (w *worker) reward(ctx context.Context, d *delivery, answer rewardmodel.ScoreResponse) outcome {
	body, err := wire.AppendResult(nil, answer.Results[0])
	if err != nil {
		return w.fail(ctx, d, fmt.Errorf("%w: %w", rewardmodel.ErrModel, err))
	}
	msg := &nats.Msg{Subject: SubjectRewards + "." + d.tail, Data: body, Header: modelHeaders(answer.Model)}
	stored, err := w.store(ctx, d, msg, StreamRewards)
	switch {
	case js.TooLarge(err):
		return w.fail(ctx, d, tooLarge("the result", int64(len(body)), w.nc.MaxPayload(), "send shorter responses, or raise the server's max_payload"))
	case err != nil:
		return w.storeFailed(d, err)
	}
	w.acknowledge(d)
	if stored.Duplicate {
		return outcomeDuplicate
	}
	return outcomeRewarded
}

// modelHeaders name the model of a reward or a reply, and its arithmetic.
func modelHeaders(m rewardmodel.ModelInfo) nats.Header {
	h := nats.Header{HeaderModelVersion: {js.HeaderValue(m.Version)}}
	if m.Numerics != "" {
		h.Set(HeaderNumerics, m.Numerics)
	}
	return h
}

// copyTrace copies the W3C trace context.
func (d *delivery) copyTrace(to nats.Header) {
	for _, name := range []string{HeaderTraceparent, HeaderTracestate} {
		if value := js.HeaderValue(traceHeader(d.msg.Headers(), name)); value != "" {
			to.Set(name, value)
		}
	}
}

// traceHeader returns a header of the W3C trace context. NATS headers are
// case-sensitive, and HTTP gateways write the canonical form.
func traceHeader(headers interface{ Get(string) string }, name string) string {
	return cmp.Or(headers.Get(name), headers.Get(http.CanonicalHeaderKey(name)))
}
