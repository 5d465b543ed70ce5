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
	// watchdogPoll is how often the running model call is checked.
	watchdogPoll = time.Second

	// stallGrace is the shutdown timeout of a service with a stalled model: requests
	// that need the model cannot finish.
	stallGrace = 2 * time.Second
)

// watchdog observes the calls of the model, as rewardmodel.Watchdog does.
type watchdog interface {
	encoder.CallWatcher
	Stalled() error
	Unusable() error
}

// watchModel logs when a model call stalls, and returns an error when the process must be replaced: the model is broken, or a
// call has stalled, which cannot be interrupted. Until then the service is not ready, but the call may still return.
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
		if err := model.Unusable(); err != nil {
			return replaceProcess(err)
		}
		err := model.Stalled()
		if (err != nil) != stalled {
			stalled = err != nil
			log(err)
		}
		var why *rewardmodel.StalledError
		if errors.As(err, &why) && why.Hopeless() {
			return replaceProcess(err)
		}
	}
}

func replaceProcess(why error) error {
	return fmt.Errorf("%w; exiting so that a supervisor starts a new process", why)
}

func (s *Service) logStall(err error) {
	if err != nil {
		s.log.Error().Err(err).Msg("not ready: the model does not respond")
		return
	}
	s.log.Warn().Msg("ready: the model responds again")
}

// await waits for all goroutines of the group. After an unrecoverable stall it waits only 2 * stallGrace, since some may
// wait for the model forever.
func await(parts *errgroup.Group, unrecoverable <-chan error) error {
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = parts.Wait()
	}()
	select {
	case <-ended:
		return err
	case why := <-unrecoverable:
		select {
		case <-ended:
		case <-time.After(2 * stallGrace): // the shutdown hangs, too
		}
		return why
	}
}
