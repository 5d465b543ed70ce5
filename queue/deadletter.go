package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"assay/internal/trace"
	"assay/queue/internal/js"
	"assay/rewardmodel"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// deadRoom is how much larger than its response a dead letter may be, in bytes.
const deadRoom = 16 << 10

// publishAttempts is how often storing a result is tried before its response is
// negatively acknowledged, and publishTimeout how long at least while the server is
// unavailable. An attempt that did arrive makes the next one a duplicate.
const (
	publishAttempts = 3
	publishTimeout  = 15 * time.Second
)

// fail decides the outcome of a response that could not be scored.
func (w *worker) fail(ctx context.Context, d *delivery, err error) outcome {
	var input *rewardmodel.InputError
	switch {
	case ctx.Err() != nil || errors.Is(err, rewardmodel.ErrClosed):
		// Another process, or this one after its restart, gets it: after the last
		// pull of this process, which could get it again immediately.
		w.nak(d, max(pullWait, w.cfg.RetryBase))
		return outcomeShuttingDown
	case errors.As(err, &input) && input.Kind == rewardmodel.KindTooLarge:
		return w.deadLetter(ctx, d, ReasonTooLarge, describe(err))
	case errors.As(err, &input):
		return w.deadLetter(ctx, d, ReasonInvalid, describe(err))
	case errors.Is(err, rewardmodel.ErrOverloaded):
		cooldown := min(describe(err).RetryAfter, w.cfg.RetryMax)
		w.cooldown(cooldown)
		w.nak(d, max(cooldown, w.retry.Delay(d.meta.NumDelivered)))
		return outcomeOverloaded
	}
	failures := w.modelFailed(d)
	w.log.Error().Err(err).Str("subject", d.msg.Subject()).Uint64("sequence", d.meta.Sequence.Stream).
		Uint64("delivery", d.meta.NumDelivered).Int("failures", failures).Msg("cannot score a response")
	if failures >= w.cfg.MaxDeliver {
		why := describe(err)
		why.Message = fmt.Sprintf("%v (delivery %d)", err, d.meta.NumDelivered)
		return w.deadLetter(ctx, d, ReasonModel, why)
	}
	w.nak(d, w.retry.Delay(d.meta.NumDelivered))
	return outcomeRetry
}

// modelFailed counts a failure of the model on a response, and returns how many there were. The
// number of its deliveries would include those that ended otherwise, as by an overload or a
// failure of JetStream.
func (w *worker) modelFailed(d *delivery) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures[d.identity()]++
	return w.failures[d.identity()]
}

// deadLetter stores a dead letter and then terminates the delivery of its response.
func (w *worker) deadLetter(ctx context.Context, d *delivery, reason Reason, why *Error) outcome {
	msg := &nats.Msg{Subject: SubjectDead + "." + string(reason), Data: d.msg.Data(), Header: nats.Header{}}
	set := func(name, value string) {
		if value = js.HeaderValue(value); value != "" {
			msg.Header.Set(name, value)
		}
	}
	set(HeaderSubject, d.msg.Subject())
	set(HeaderMsgID, d.msgID())
	set(HeaderDeliveries, strconv.FormatUint(d.deliveries(), 10))
	set(HeaderCode, strconv.Itoa(why.Code))
	set(HeaderField, why.Field)
	set(HeaderMessage, why.Message)
	if room := int(w.nc.MaxPayload()) - deadRoom; len(msg.Data) > room {
		set(HeaderTruncated, strconv.Itoa(len(msg.Data)))
		msg.Data = msg.Data[:room]
	}
	if _, err := w.store(ctx, d, msg, StreamDead); err != nil {
		return w.storeFailed(d, err)
	}
	w.metrics.dead.WithLabelValues(string(reason)).Inc()
	w.log.Warn().Str("reason", string(reason)).Str("subject", d.msg.Subject()).Uint64("sequence", d.meta.Sequence.Stream).
		Str("field", why.Field).Str("error", why.Message).Msg("stored a dead letter")
	w.books.complete(d.meta.Sequence.Stream)
	if err := d.msg.TermWithReason(string(reason)); err != nil {
		w.log.Warn().Err(err).Msg("cannot terminate the delivery of a response; it will be recognized as a duplicate")
	}
	return outcomeDeadLettered
}

// store publishes msg, with its checksum, under the key of the response and waits for the
// acknowledgement, which reports a duplicate if it was stored before.
func (w *worker) store(ctx context.Context, d *delivery, msg *nats.Msg, stream string) (ack *jetstream.PubAck, err error) {
	ctx, span := d.beginPublish(ctx, msg, stream)
	defer func() {
		if err != nil {
			trace.Fail(span, string(outcomeStoreFailed))
		}
		span.End()
	}()
	msg.Header.Set(jetstream.MsgIDHeader, d.key)
	msg.Header.Set(HeaderSequence, strconv.FormatUint(d.meta.Sequence.Stream, 10))
	js.Seal(msg.Subject, msg.Header, msg.Data)
	start := time.Now()
	for attempt := uint64(1); ; attempt++ {
		try, cancel := context.WithTimeout(ctx, js.RequestTimeout)
		ack, err := w.publish(try, msg, jetstream.WithExpectStream(stream))
		cancel()
		if err == nil && ack.Duplicate {
			err = w.results.Verify(ctx, stream, ack.Sequence)
			if errors.Is(err, js.ErrDamaged) { // until the server no longer knows its key, which is then stored again
				return nil, fmt.Errorf("the result that was stored before, %d of %s, is %w", ack.Sequence, stream, err)
			}
		}
		if err == nil && ack.Duplicate {
			if err := w.books.completeAgain(ctx, d.meta.Sequence.Stream); err != nil {
				w.log.Debug().Err(err).Msg("cannot record that a response has the result of an earlier one; it may be reported as missing")
			}
		}
		if err == nil || js.TooLarge(err) {
			return ack, err
		}
		w.metrics.publishErrs.Inc()
		unavailable := js.Retryable(err) && time.Since(start) < publishTimeout
		if attempt >= publishAttempts && !unavailable || ctx.Err() != nil {
			return nil, fmt.Errorf("storing in %s: %w", stream, js.Explain(err))
		}
		js.Sleep(ctx, w.retry.Delay(attempt))
	}
}

// storeFailed negatively acknowledges a response because JetStream failed.
func (w *worker) storeFailed(d *delivery, err error) outcome {
	if w.working.Err() == nil {
		w.log.Error().Err(err).Uint64("sequence", d.meta.Sequence.Stream).Msg("JetStream failed; the response is delivered again")
	}
	w.nak(d, w.retry.Delay(d.meta.NumDelivered))
	return outcomeStoreFailed
}

// acknowledge ends the delivery of a completed response. If the acknowledgement is lost,
// the response is delivered again after AckWait and recognized as a duplicate.
func (w *worker) acknowledge(d *delivery) {
	w.books.complete(d.meta.Sequence.Stream)
	if err := w.ack(d.msg); err != nil {
		w.log.Warn().Err(err).Msg("cannot acknowledge a response; it will be recognized as a duplicate")
	}
}

// nak negatively acknowledges a response, which is delivered again after the delay.
func (w *worker) nak(d *delivery, delay time.Duration) {
	if err := d.msg.NakWithDelay(delay); err != nil {
		w.log.Debug().Err(err).Msg("cannot negatively acknowledge a response; it is delivered again after the acknowledgement wait")
	}
}
