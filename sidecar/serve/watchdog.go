package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
)

const (
	// watchdogPoll is how often the running model call is looked at.
	watchdogPoll = time.Second

	// stallGrace is how long the shutdown of a service with a stalled model may
	// take: what needs the model cannot be finished.
	stallGrace = 2 * time.Second
)

// watchdog observes the calls of the model, as rewardmodel.Watchdog does.
type watchdog interface {
	encoder.CallWatcher
	Stalled() error
}

// watchModel logs when a model call stalls, and returns an error when the process should be replaced: no call into
// libtorch can be interrupted. Until then the service is not ready, in case the call ends after all.
func watchModel(ctx context.Context, model watchdog, log func(error)) error {
	tick := time.NewTicker(watchdogPoll)
	defer tick.Stop()
	stalled := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := model.Stalled()
		if (err != nil) != stalled {
			stalled = err != nil
			log(err)
		}
		var why *rewardmodel.StalledError
		if errors.As(err, &why) && why.Hopeless() {
			return fmt.Errorf("%w; exiting so that a supervisor starts a new process", err)
		}
	}
}

func (s *Service) logStall(err error) {
	if err != nil {
		s.log.Error().Err(err).Msg("not ready: the model does not respond")
		return
	}
	s.log.Warn().Msg("the model responds again")
}

// await waits for all parts, but not for those that wait for a stalled model: then the process ends with them.
func await(parts *errgroup.Group, hopeless <-chan error) error {
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = parts.Wait()
	}()
	select {
	case <-ended:
		return err
	case why := <-hopeless:
		select {
		case <-ended:
		case <-time.After(2 * stallGrace): // its shutdown hangs, too
		}
		return why
	}
}
