package serve

import (
	"context"
	"errors"

	"assay/sidecar/cli"
)

var errShutdownTimeout = errors.New("not all was finished within --shutdown-timeout")

// shutdown ends the parts in the order in which they feed each other, all
// before one deadline: not ready any more, HTTP and gRPC drained, no more responses
// taken and those in flight finished or negatively acknowledged, a training run in flight left
// for the next process, the models stopped, NATS drained and stopped.
func (s *Service) shutdown() error {
	s.http.Drain()
	s.log.Info().Stringer("within", s.config.ShutdownTimeout).Msg("shutting down; a second signal ends at once")
	stalled := s.handle.watchdog.Stalled() != nil
	timeout := s.config.ShutdownTimeout
	if stalled {
		timeout = min(timeout, stallGrace)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, errShutdownTimeout)
	defer cancel()
	if s.config.DrainDelay > 0 && !stalled {
		_ = cli.Wait(ctx, s.config.DrainDelay) // shorter than the deadline
	}
	<-s.started // it sees the end of its context

	errs := []error{s.http.Shutdown(ctx)}
	q := s.handle.queue.Load()
	if q != nil {
		errs = append(errs, q.Drain(ctx))
	}
	errs = append(errs, s.stopLearning())
	if !stalled && ctx.Err() == nil { // else it could wait forever for a model call
		errs = append(errs, s.closeModels())
	}
	if q != nil {
		errs = append(errs, q.Close(ctx))
	}
	if s.replica != nil {
		errs = append(errs, s.replica.Release())
	}
	err := errors.Join(append(errs, s.opened.Close())...)
	if err == nil {
		s.log.Info().Msg("stopped")
	}
	return err
}

func (s *Service) closeModels() (err error) {
	if versions := s.handle.versions.Load(); versions != nil {
		err = versions.Close()
	}
	if s.loader != nil {
		s.loader.runtime.Close()
	}
	return err
}
