package retrain

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopOf is what an operator of another process does.
func (f *fleet) stopOf(t testing.TB, id string) (Status, error) {
	p := &process{fleet: f, t: t, died: func() {}}
	return Operator{Statuses: p, Journal: p}.Stop(context.Background(), id, Cancellation{By: "eve", Reason: "wrong labels"})
}

func TestOperatorStop(t *testing.T) {
	asked, by := &TrainingRequest{By: "anna"}, &Cancellation{By: "ben"}
	for name, c := range map[string]struct {
		status Status
		id     string
		err    error
		by     string // of the cancellation; "": none
	}{
		"none was ever stored":        {Status{}, "", ErrNoTraining, ""},
		"idle":                        {Status{Phase: PhaseIdle, ID: "x"}, "", ErrNoTraining, ""},
		"requested":                   {Status{Phase: PhaseIdle, ID: "x", Requested: asked}, "", nil, ""},
		"a run that has ended":        {Status{Phase: PhaseIdle, ID: "x", Requested: asked}, "x", ErrNoTraining, ""},
		"collecting":                  {Status{Phase: PhaseCollecting, ID: "x"}, "", nil, "eve"},
		"training":                    {Status{Phase: PhaseTraining, ID: "x", Requested: asked}, "x", nil, "eve"},
		"gating":                      {Status{Phase: PhaseGating, ID: "x"}, "x", nil, "eve"},
		"another run":                 {Status{Phase: PhaseTraining, ID: "y"}, "x", ErrChanged, ""},
		"publishing":                  {Status{Phase: PhasePublishing, ID: "x"}, "x", ErrChanged, ""},
		"canceled by someone earlier": {Status{Phase: PhaseTraining, ID: "x", Canceled: by}, "x", nil, "ben"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			f.status = c.status
			status, err := f.stopOf(t, c.id)
			require.ErrorIs(t, err, c.err)
			if c.by != "" {
				require.Equal(t, c.by, status.Canceled.By)
				require.Equal(t, c.status.Requested, f.status.Requested)
				require.Empty(t, f.events, "the owner reports the end")
				return
			}
			require.Nil(t, f.status.Canceled)
			if err == nil { // a request was withdrawn
				require.Nil(t, f.status.Requested)
				require.Equal(t, []EventKind{EventTrainingCanceled}, f.kinds())
			}
		})
	}
}

// A training run that is stopped ends its child process, records who stopped it and
// why, and leaves no data behind; its labels count for the next run.
func TestLoopStops(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	training := make(chan struct{}, 1)
	attempts := 0
	p := &process{worker: func(ctx context.Context) error {
		if attempts++; attempts > 1 {
			return nil
		}
		training <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	dir := t.TempDir()
	stop := f.start(t, "a", dir, p)
	<-training
	status, err := f.stopOf(t, "")
	require.NoError(t, err)
	require.Equal(t, PhaseTraining, status.Phase)
	out := f.ended(t, 1)
	require.Equal(t, Outcome{ID: status.ID, Result: ResultCanceled, Reason: "wrong labels", By: "eve", Finished: out.Finished}, out)
	require.Equal(t, []EventKind{EventTrainingStarted, EventTrainingCanceled}, f.kinds())
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	}, 20*time.Second, time.Millisecond)
	require.Nil(t, f.status.Canceled)
	require.Zero(t, f.changes)

	// No trigger starts it again before the cool-down, a request does.
	_, err = Operator{Statuses: p}.Start(t.Context(), TrainingRequest{By: "anna"})
	require.NoError(t, err)
	out = f.ended(t, 2)
	stop()
	require.Equal(t, ResultPromoted, out.Result)
	require.Equal(t, 2, attempts)
	require.Equal(t, 60, f.models[out.Version].Data.New+f.models[out.Version].Data.HeldOut)
}

// At whatever call of the owner a stop comes: if it is accepted, the run ends as
// canceled and nothing is promoted; otherwise it ends as if there had been none.
func TestLoopStopsAtEveryCall(t *testing.T) {
	accepted := 0
	for at := 1; ; at++ {
		f := newFleet()
		f.label(0, 60)
		stopped := make(chan error, 1)
		p := &process{before: func(call int) {
			if call == at {
				_, err := f.stopOf(t, "")
				stopped <- err
			}
		}}
		stop := f.start(t, "a", t.TempDir(), p)
		out := f.ended(t, 1)
		stop()
		select {
		case err := <-stopped:
			if err == nil {
				accepted++
				require.Equal(t, ResultCanceled, out.Result, "call %d", at)
				require.Zero(t, f.changes, "call %d", at)
				require.NotContains(t, f.kinds(), EventPromoted, "call %d", at)
				continue
			}
			require.Equal(t, ResultPromoted, out.Result, "call %d: %v", at, err)
		default: // the run has ended before that call
			require.Greater(t, accepted, 5)
			return
		}
	}
}

// The owner may die at any call after a run was stopped: the run stays stopped.
func TestLoopStaysStoppedAfterACrash(t *testing.T) {
	for later := range 12 {
		t.Run(fmt.Sprint(later), func(t *testing.T) {
			f := newFleet()
			f.label(0, 60)
			training := make(chan struct{})
			dead := make(chan struct{})
			first := &process{worker: func(ctx context.Context) error {
				close(training)
				<-ctx.Done()
				return ctx.Err()
			}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			first.died = cancel
			context.AfterFunc(ctx, func() { close(dead) })
			dir := t.TempDir()
			stop := f.start(t, "a", dir, first)
			<-training
			first.mu.Lock()
			first.dieAt = first.calls + 1 + later
			_, err := f.stopOf(t, "")
			first.mu.Unlock()
			require.NoError(t, err)
			<-dead
			stop()
			successor := []string{"a", "b"}[later%2]
			second := &process{worker: func(context.Context) error { t.Error("it trains again"); return nil }}
			if successor == "b" {
				dir, second.ttl = t.TempDir(), 200*time.Millisecond
			}
			stop = f.start(t, successor, dir, second)
			out := f.ended(t, 1)
			stop()
			require.Equal(t, ResultCanceled, out.Result)
			require.Equal(t, []EventKind{EventTrainingStarted, EventTrainingCanceled}, f.kinds())
			require.Zero(t, f.changes)
		})
	}
}
