package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/queue/internal/js"

	"github.com/nats-io/nats.go/jetstream"
)

// source is the consumer that responses are pulled from, and what is known of its
// stream.
type source struct {
	consumer   jetstream.Consumer
	created    time.Time // of the stream of responses
	first      uint64    // sequence of its oldest response
	reconnects uint64    // of the connection, when this was read
	clock      *js.Clock
	quarantine *quarantine
	delivered  uint64 // number of the last delivery that this process knows of
	recreated  bool   // the consumer counts from the beginning again
}

// observe takes the number that the consumer gave a delivery. If it is not higher than all
// before, another process has created the consumer again, or its server has lost its count.
func (s *source) observe(delivery uint64) {
	s.recreated = s.recreated || delivery <= s.delivered
	s.delivered = delivery
}

// attach creates the consumer if it is missing, and reads which responses are complete.
// It runs at the start and whenever the server may have forgotten something.
func (w *worker) attach(ctx context.Context, again bool) (source, error) {
	src := source{reconnects: w.nc.Stats().Reconnects, clock: &w.clock}
	ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	var err error
	if src.consumer, err = w.consumer(ask, again); err != nil {
		return src, fmt.Errorf("consumer %s: %w", ConsumerScorer, js.Explain(err))
	}
	info, err := w.responsesInfo(ask)
	if err != nil {
		return src, fmt.Errorf("stream %s: %w", StreamResponses, err)
	}
	src.created, src.first = info.Created, info.State.FirstSeq
	if !again {
		if src.consumer, err = w.checkClock(ask, src.consumer, info); err != nil {
			return src, err
		}
	}
	if err = w.openState(ask); err != nil {
		return src, err
	}
	if err = w.mark(ask); err != nil {
		return src, err
	}
	src.delivered = src.consumer.CachedInfo().Delivered.Consumer
	if src.quarantine, err = w.quarantineOf(ctx, src); err != nil {
		return src, err
	}
	if info.State.Msgs == 0 {
		return src, nil
	}
	return src, w.results.Rebuild(ctx, info.State.FirstSeq)
}

// consumer creates or updates the consumer. When attaching again it is enough that the
// consumer exists, which a cluster without a leader can report.
func (w *worker) consumer(ctx context.Context, again bool) (jetstream.Consumer, error) {
	if again {
		consumer, err := w.js.Consumer(ctx, StreamResponses, ConsumerScorer)
		if !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return consumer, err
		}
	}
	config := jetstream.ConsumerConfig{
		Durable:       ConsumerScorer,
		Description:   "scores responses; shared by all replicas of assay",
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       w.cfg.AckWait,
		MaxAckPending: w.cfg.MaxAckPending,
		// The server also counts deliveries that a crash interrupted, and would
		// drop a response without notice. The worker counts instead, see fail.
		MaxDeliver: -1,
	}
	consumer, err := w.js.CreateOrUpdateConsumer(ctx, StreamResponses, config)
	if !js.NotCreated(err) || w.cfg.server == nil {
		return consumer, err
	}
	// Its files may be damaged. What they say is not needed: a response that is still in the
	// stream has no result, or is recognized by it.
	w.log.Warn().Err(err).Msg("the NATS server cannot load the consumer of the responses; its files are removed, and it is created again")
	if err := w.cfg.server.RemoveConsumer(StreamResponses, ConsumerScorer); err != nil {
		return nil, err
	}
	return w.js.CreateOrUpdateConsumer(ctx, StreamResponses, config)
}

// responsesInfo returns the state of the stream of responses, and sets the clock of the
// server.
func (w *worker) responsesInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	requested := time.Now()
	stream, err := w.js.Stream(ctx, StreamResponses)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	w.clock.Observe(info.TimeStamp, requested, time.Now())
	return info, nil
}

// redeliver removes the consumer if the oldest response was acknowledged before the last
// call, and this one: after a failure of the disk, the server may keep responses that it
// counts as acknowledged, and delivers them to no one. Once the worker has created the
// consumer again, it gets all that are left, recognizes those with a result, and scores the
// others.
//
// A response that the server cannot read is reported instead: it is delivered to no one, also
// if it was not acknowledged, and to no other consumer.
func (w *worker) redeliver(ctx context.Context, state jetstream.StreamState, acknowledged uint64) {
	oldest := state.FirstSeq
	stays := state.Msgs > 0 && oldest == w.first
	if w.first = oldest; stays && w.unreadable(ctx, oldest) {
		return
	}
	if state.Msgs == 0 || oldest > acknowledged {
		oldest = 0
	}
	again := oldest > 0 && oldest == w.leftover // or it may be about to leave
	if w.leftover = oldest; !again {
		return
	}
	w.leftover = 0
	w.log.Warn().Uint64("sequence", oldest).Msg("the NATS server keeps responses that were acknowledged; they are delivered again")
	if err := w.js.DeleteConsumer(ctx, StreamResponses, ConsumerScorer); err != nil {
		w.log.Warn().Err(err).Msg("cannot remove the consumer of the responses")
	}
}

// unreadable reports whether the server keeps the oldest response and cannot read it.
func (w *worker) unreadable(ctx context.Context, oldest uint64) bool {
	stream, err := w.js.Stream(ctx, StreamResponses)
	if err != nil {
		return false
	}
	if _, err := stream.GetMsg(ctx, oldest); !errors.Is(err, jetstream.ErrMsgNotFound) {
		return false
	}
	info, err := w.responsesInfo(ctx)
	if err == nil && info.State.FirstSeq == oldest { // or it is gone meanwhile
		w.cfg.damage.ReportMissing(StreamResponses, []uint64{oldest})
	}
	return err == nil
}
