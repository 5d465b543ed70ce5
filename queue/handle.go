package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// never is how long a publisher waits that says nothing of it.
const never = 100 * 365 * 24 * time.Hour

// deadRoom is what a dead letter may be larger than its response, in bytes.
const deadRoom = 16 << 10

// publishAttempts is how often a result is tried to be stored before its
// response is handed back, and publishPatience for how long at least when
// nobody can take it, as when a server died. An attempt that did arrive is a
// duplicate.
const (
	publishAttempts = 3
	publishPatience = 15 * time.Second
)

// handle settles one delivery, or hands it back. A response is settled when its
// reward or dead letter is stored, and only then acknowledged: dying at any
// point in between means that it is delivered again, and that the second reward
// is recognised by its key.
//
// A panic on the way, as in decoding, fails this response alone.
func (w *worker) handle(ctx context.Context, d *delivery) (o outcome) {
	defer func() {
		if value := recover(); value != nil {
			o = w.fail(ctx, d, panicked(value, kindResponse, w.metrics, w.log))
		}
	}()
	settled, err := w.settledBefore(ctx, d)
	if err != nil {
		return w.unstored(d, err)
	}
	if settled {
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
	wait, err := timeout(d.msg.Headers().Get(HeaderTimeout), never)
	if err != nil {
		return w.fail(ctx, d, err)
	}
	waited, cancel := context.WithDeadline(ctx, d.published.Add(wait))
	defer cancel()
	if ctx.Err() == nil && waited.Err() != nil {
		return w.expire(ctx, d, wait)
	}
	answer, err := w.scorer.Score(waited, rewardmodel.Request{Responses: []rewardmodel.Item{item}, Priority: rewardmodel.PriorityBulk, Exclusive: d.alone, Memory: d.memory})
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

// expire gives up a response that nobody waits for any more.
func (w *worker) expire(ctx context.Context, d *delivery, wait time.Duration) outcome {
	return w.bury(ctx, d, ReasonExpired, &Error{Code: http.StatusGatewayTimeout, Name: nameDeadline, Field: HeaderTimeout,
		Message: fmt.Sprintf("it was not scored within %v of its publication; allow more, or leave the header out", wait)})
}

// settledBefore asks the ledger, which reads what is new only for a response
// that was delivered before and is too old for the streams to recognise.
func (w *worker) settledBefore(ctx context.Context, d *delivery) (bool, error) {
	return w.ledger.seen(ctx, d.key, d.meta.Timestamp, d.redelivered() && d.old)
}

// item decodes the response and gives it its id.
func (d *delivery) item() (rewardmodel.Item, error) {
	if strings.ContainsAny(d.tail, "*> \t\r\n") {
		return rewardmodel.Item{}, &rewardmodel.InputError{Kind: rewardmodel.KindInvalid, Field: "subject",
			Message: fmt.Sprintf("%q holds a wildcard or white space, so no reward can have it; publish on another", d.msg.Subject())}
	}
	item, err := wire.DecodeItem(d.msg.Data())
	item.ID = d.id(item.ID)
	if err == nil && item.TokenOffsets != nil {
		err = &rewardmodel.InputError{Kind: rewardmodel.KindInvalid, Field: "token_offsets",
			Message: "a streamed response has no options, and so no dense reward; leave them out, or request it on " + SubjectScore}
	}
	return item, err
}

// reward stores the result and acknowledges the response.
func (w *worker) reward(ctx context.Context, d *delivery, answer rewardmodel.Answer) outcome {
	body, err := wire.AppendResult(nil, answer.Results[0])
	if err != nil {
		return w.fail(ctx, d, fmt.Errorf("%w: %w", rewardmodel.ErrModel, err))
	}
	msg := &nats.Msg{Subject: SubjectRewards + "." + d.tail, Data: body, Header: nats.Header{}}
	msg.Header.Set(HeaderModelVersion, headerValue(answer.Model.Version))
	d.copyTrace(msg.Header)
	stored, err := w.store(ctx, d, msg, StreamRewards)
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return w.fail(ctx, d, tooLarge("the result", int64(len(body)), w.nc.MaxPayload(), "send shorter responses, or raise the server's max_payload"))
	case err != nil:
		return w.unstored(d, err)
	}
	w.acknowledge(d)
	if stored.Duplicate {
		return outcomeDuplicate
	}
	return outcomeRewarded
}

// fail decides what becomes of a response that could not be scored.
func (w *worker) fail(ctx context.Context, d *delivery, err error) outcome {
	var input *rewardmodel.InputError
	switch {
	case ctx.Err() != nil || errors.Is(err, rewardmodel.ErrClosed):
		// Another process, or this one after its restart, takes it: after our
		// last pull, which would bring it straight back.
		w.handBack(d, max(pullWait, w.cfg.RetryBase))
		return outcomeClosed
	case errors.As(err, &input) && input.Kind == rewardmodel.KindTooLarge:
		return w.bury(ctx, d, ReasonTooLarge, describe(err))
	case errors.As(err, &input):
		return w.bury(ctx, d, ReasonInvalid, describe(err))
	case errors.Is(err, rewardmodel.ErrOverloaded):
		rest := min(describe(err).RetryAfter, w.cfg.RetryMax)
		w.restFor(rest)
		w.handBack(d, max(rest, retryDelay(d.meta.NumDelivered, w.cfg.RetryBase, w.cfg.RetryMax)))
		return outcomeOverloaded
	}
	w.log.Error().Err(err).Str("subject", d.msg.Subject()).Uint64("sequence", d.meta.Sequence.Stream).
		Uint64("delivery", d.meta.NumDelivered).Msg("cannot score a response")
	if d.meta.NumDelivered >= uint64(w.cfg.MaxDeliver) {
		why := describe(err)
		why.Message = fmt.Sprintf("%v (delivery %d)", err, d.meta.NumDelivered)
		return w.bury(ctx, d, ReasonModel, why)
	}
	w.handBack(d, retryDelay(d.meta.NumDelivered, w.cfg.RetryBase, w.cfg.RetryMax))
	return outcomeRetry
}

// bury stores a dead letter and then ends the delivery of its response.
func (w *worker) bury(ctx context.Context, d *delivery, reason Reason, why *Error) outcome {
	msg := &nats.Msg{Subject: SubjectDead + "." + string(reason), Data: d.msg.Data(), Header: nats.Header{}}
	set := func(name, value string) {
		if value = headerValue(value); value != "" {
			msg.Header.Set(name, value)
		}
	}
	set(HeaderSubject, d.msg.Subject())
	set(HeaderSequence, strconv.FormatUint(d.meta.Sequence.Stream, 10))
	set(HeaderMsgID, d.msgID())
	set(HeaderDeliveries, strconv.FormatUint(d.deliveries(), 10))
	set(HeaderCode, strconv.Itoa(why.Code))
	set(HeaderField, why.Field)
	set(HeaderMessage, why.Message)
	d.copyTrace(msg.Header)
	if room := int(w.nc.MaxPayload()) - deadRoom; len(msg.Data) > room {
		set(HeaderTruncated, strconv.Itoa(len(msg.Data)))
		msg.Data = msg.Data[:room]
	}
	if _, err := w.store(ctx, d, msg, StreamDead); err != nil {
		return w.unstored(d, err)
	}
	w.metrics.dead.WithLabelValues(string(reason)).Inc()
	w.log.Warn().Str("reason", string(reason)).Str("subject", d.msg.Subject()).Uint64("sequence", d.meta.Sequence.Stream).
		Str("field", why.Field).Str("why", why.Message).Msg("a response is a dead letter")
	if err := d.msg.TermWithReason(string(reason)); err != nil {
		w.log.Warn().Err(err).Msg("cannot end the delivery of a response; it will be recognised")
	}
	return outcomeDead
}

// store publishes msg under the key of the response and waits until it is on
// disk. What was stored before is reported as a duplicate.
func (w *worker) store(ctx context.Context, d *delivery, msg *nats.Msg, stream string) (*jetstream.PubAck, error) {
	began := time.Now()
	for attempt := uint64(1); ; attempt++ {
		try, cancel := context.WithTimeout(ctx, requestTimeout)
		ack, err := w.publish(try, msg, jetstream.WithMsgID(d.key), jetstream.WithExpectStream(stream))
		cancel()
		if err == nil || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum) {
			return ack, err
		}
		w.metrics.publishErrs.Inc()
		patient := passing(err) && time.Since(began) < publishPatience
		if attempt >= publishAttempts && !patient || ctx.Err() != nil {
			return nil, fmt.Errorf("storing in %s: %w", stream, explain(err))
		}
		select {
		case <-time.After(retryDelay(attempt, w.cfg.RetryBase, w.cfg.RetryMax)):
		case <-ctx.Done():
		}
	}
}

// unstored hands a response back because JetStream did not do its part.
func (w *worker) unstored(d *delivery, err error) outcome {
	if w.working.Err() == nil {
		w.log.Error().Err(err).Uint64("sequence", d.meta.Sequence.Stream).Msg("a response is handed back")
	}
	w.handBack(d, retryDelay(d.meta.NumDelivered, w.cfg.RetryBase, w.cfg.RetryMax))
	return outcomeUnstored
}

// acknowledge and handBack tell the server what became of a response. If that
// is lost, the response is delivered again after AckWait and recognised.
func (w *worker) acknowledge(d *delivery) {
	if err := w.ack(d.msg); err != nil {
		w.log.Warn().Err(err).Msg("cannot acknowledge a response; it will be recognised")
	}
}

func (w *worker) handBack(d *delivery, delay time.Duration) {
	if err := d.msg.NakWithDelay(delay); err != nil {
		w.log.Debug().Err(err).Msg("cannot hand a response back; it comes again by itself")
	}
}

// copyTrace carries the W3C trace context over.
func (d *delivery) copyTrace(to nats.Header) {
	for _, name := range []string{HeaderTraceparent, HeaderTracestate} {
		value := d.msg.Headers().Get(name)
		if value == "" { // NATS headers keep their case, and HTTP gateways write this one
			value = d.msg.Headers().Get(http.CanonicalHeaderKey(name))
		}
		if value = headerValue(value); value != "" {
			to.Set(name, value)
		}
	}
}
