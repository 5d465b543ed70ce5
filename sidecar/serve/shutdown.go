package serve

import (
	"context"
	"errors"

	"assay/sidecar/cli"
)

var errShutdownTimeout = errors.New("requests were still in flight after --shutdown-timeout")

// shutdown stops the components in the order of the data flow, with one deadline for all; see Shutdown.
func (s *Service) shutdown() error {
	s.http.Drain()
	s.log.Info().Stringer("within", s.config.ShutdownTimeout).Msg("shutting down; a second signal terminates immediately")
	unusable := s.handle.watchdog.Stalled() != nil || s.handle.watchdog.Usable().Err() != nil
	timeout := s.config.ShutdownTimeout
	if unusable {
		timeout = min(timeout, stallGrace)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, errShutdownTimeout)
	defer cancel()
	if s.config.DrainDelay > 0 && !unusable {
		_ = cli.Wait(ctx, s.config.DrainDelay) // shorter than the deadline
	}
	<-s.started // the start ends soon: its context has ended

	s.live.Close()
	errs := []error{s.http.Shutdown(ctx)}
	q := s.handle.queue.Load()
	if q != nil {
		errs = append(errs, q.Drain(ctx))
	}
	errs = append(errs, s.stopLearning())
	if !unusable && ctx.Err() == nil { // closing could wait forever for a model call
		errs = append(errs, s.closeModels())
	}
	if q != nil {
		errs = append(errs, q.Close(ctx))
	}
	if s.replica != nil {
		errs = append(errs, s.replica.Release())
	}
	s.traces.Shutdown(ctx)
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
