package serve

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/internal/nativefault"
	"assay/queue"
	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
)

const (
	// watchdogPoll is how often the running model call is checked.
	watchdogPoll = time.Second

	// stallGrace is the shutdown timeout of a service whose model has stalled or is broken:
	// requests that need it cannot finish.
	stallGrace = 2 * time.Second
)

// watchdog observes the calls of the model, as rewardmodel.Watchdog does.
type watchdog interface {
	encoder.CallWatcher
	Stalled() error
	Usable() context.Context
}

// faultRecorder is a watchdog that records what is in flight at a fault in native code, before any of it ends.
type faultRecorder struct {
	watchdog
	queue *atomic.Pointer[queue.Queue]
}

// Broken implements encoder.CallWatcher.
func (r faultRecorder) Broken(err error) {
	var fault *nativefault.FaultError
	if q := r.queue.Load(); errors.As(err, &fault) && q != nil {
		q.MarkCrash()
	}
	r.watchdog.Broken(err)
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
		case <-model.Usable().Done():
			return replaceProcess(context.Cause(model.Usable()))
		case <-tick.C:
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

// await waits for all goroutines of the group. With a model that is unusable it waits only 2 * stallGrace, since some may
// wait for it forever.
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
