package traces

import (
	"context"
	"sync/atomic"

	"github.com/rs/zerolog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"assay/rewardmodel"
)

// sender exports batches of spans, counts them, and logs when the collector fails and
// when it accepts spans again. It returns no errors: the SDK writes those to standard
// error, past the logger.
type sender struct {
	sdktrace.SpanExporter
	queue   *boundedQueue
	log     zerolog.Logger
	failing atomic.Bool
	working context.Context
	abort   context.CancelFunc // ends the exports in flight, which retry for up to a minute
}

func newSender(exporter sdktrace.SpanExporter, queue *boundedQueue, log zerolog.Logger) *sender {
	s := &sender{SpanExporter: exporter, queue: queue, log: log}
	s.working, s.abort = context.WithCancel(context.Background())
	return s
}

// ExportSpans implements sdktrace.SpanExporter.
func (s *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.working, cancel)()
	err := s.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		s.queue.done(len(spans), outcomeFailed)
		if !s.failing.Swap(true) {
			s.log.Warn().Str("error", rewardmodel.Shorten(err.Error())).Msg("the collector does not accept traces; they are lost until it does")
		}
		return nil
	}
	s.queue.done(len(spans), outcomeExported)
	if s.failing.Swap(false) {
		s.log.Info().Msg("the collector accepts traces again")
	}
	return nil
}
