package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/queue/internal/js"
)

// The server remembers when it delivered a response by its wall clock. If that is set back, a
// response whose process has died is delivered again only when the clock has caught up, which may
// be hours later. Then the consumer is created again, and all that is left is delivered at once.

// clockBack measures by how much the wall clock of the server of a consumer was set back.
type clockBack struct {
	created, server, received time.Time     // of the last reply
	jump                      time.Duration // before it
	last                      uint64        // response that was found ahead of the clock
}

// observe takes a reply that was requested and received at the given times of this process, and
// compares it with the last one, unless the consumer was created in the meantime.
func (c *clockBack) observe(info *jetstream.ConsumerInfo, requested, received time.Time) {
	c.jump = 0
	if !info.TimeStamp.IsZero() && !c.server.IsZero() && c.created.Equal(info.Created) { // the server reports its time
		c.jump = requested.Sub(c.received) - info.TimeStamp.Sub(c.server)
	}
	c.created, c.server, c.received = info.Created, info.TimeStamp, received
}

// by returns the least by which the clock was set back, if it was: since the reply before the
// last one, or since the last response was stored, which it says once.
func (c *clockBack) by(responses *jetstream.StreamInfo) time.Duration {
	back := c.jump
	if responses.State.LastSeq != c.last {
		if a := ahead(responses); a > 0 {
			c.last = responses.State.LastSeq
			back = max(back, a)
		}
	}
	return back
}

// ahead returns by how much the last message of a stream is ahead of the clock of its server.
func ahead(info *jetstream.StreamInfo) time.Duration {
	if info.TimeStamp.IsZero() || info.State.Msgs == 0 {
		return 0
	}
	return info.State.LastTime.Sub(info.TimeStamp)
}

// recreateConsumer removes the consumer if responses were delivered by a clock that was set back by
// more than the acknowledgement wait, and reports whether it did.
func (w *worker) recreateConsumer(ctx context.Context, pending int, back time.Duration) (bool, error) {
	if pending == 0 || back <= w.cfg.AckWait {
		return false, nil
	}
	w.log.Warn().Stringer("set_back", back.Round(time.Second)).Int("responses", pending).
		Msg("the clock of the NATS server was set back; responses that wait for an acknowledgement are delivered again")
	if err := w.js.DeleteConsumer(ctx, StreamResponses, ConsumerScorer); err != nil {
		return false, fmt.Errorf("consumer %s: %w", ConsumerScorer, js.Explain(err))
	}
	return true, nil
}

// checkClock returns the consumer, created again if a process that died may have used it when the
// clock was ahead, which shows in what is stored.
func (w *worker) checkClock(ctx context.Context, consumer jetstream.Consumer, responses *jetstream.StreamInfo) (jetstream.Consumer, error) {
	back := w.back.by(responses)
	for _, name := range []string{StreamRewards, StreamDead} {
		stream, err := w.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, js.Explain(err))
		}
		back = max(back, ahead(stream.CachedInfo()))
	}
	removed, err := w.recreateConsumer(ctx, consumer.CachedInfo().NumAckPending, back)
	if err != nil || !removed {
		return consumer, err
	}
	return w.consumer(ctx, false)
}
