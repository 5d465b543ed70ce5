package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Observer is notified of the progress of runs. Its methods are called from several goroutines; workers count from 0.
type Observer interface {
	Started(worker int, s Spec)
	Progressed(worker, done, total int, stage string, loss float64)
	Ended(worker int, s Spec, r Record, err error) // err is nil, ErrDuplicate when another process was first, or the failure of the run
}

// Runner executes the runs of a plan that a store does not hold.
type Runner struct {
	Store    *Store
	Run      RunFunc
	Workers  int // concurrent runs; at least 1
	Observer Observer
	Version  string  // of the program, for the records
	Machine  Machine // for fields that a record lacks
}

// Failure is a failed run.
type Failure struct {
	Spec Spec
	Err  error
}

// Outcome is the outcome of a plan.
type Outcome struct {
	Recorded int // in the store before, or added by another process
	Done     int
	Failed   []Failure // in the order of the plan
}

// Outstanding returns the runs of the plan that the store does not hold.
func (s *Store) Outstanding(plan []Spec) []Spec {
	return slices.DeleteFunc(slices.Clone(plan), s.Has)
}

// Do executes the outstanding runs in order. A failed run does not stop the others; the error is that of a canceled
// context, or of a results file that cannot be written. Interrupted runs leave no record.
func (r Runner) Do(ctx context.Context, plan []Spec) (Outcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	todo := r.Store.Outstanding(plan)
	outcome := Outcome{Recorded: len(plan) - len(todo)}
	errs := make([]error, len(todo))
	began := make([]bool, len(todo))
	next := make(chan int)
	var workers sync.WaitGroup
	for worker := range min(max(r.Workers, 1), len(todo)) {
		workers.Go(func() {
			for i := range next {
				began[i] = true
				if errs[i] = r.one(ctx, worker, todo[i]); errors.Is(errs[i], errStore) {
					stop(errs[i])
				}
			}
		})
	}
feed:
	for i := range todo {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	for i, err := range errs {
		switch {
		case !began[i] || ctx.Err() != nil && errors.Is(err, ctx.Err()):
		case err == nil:
			outcome.Done++
		case errors.Is(err, ErrDuplicate):
			outcome.Recorded++
		default:
			outcome.Failed = append(outcome.Failed, Failure{todo[i], err})
		}
	}
	return outcome, context.Cause(ctx)
}

// errStore reports that a record could not be stored.
var errStore = errors.New("paper: the record was not stored")

// one executes a run, unless another process has recorded it, and stores its record.
func (r Runner) one(ctx context.Context, worker int, spec Spec) error {
	if err := r.Store.Refresh(); err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if r.Store.Has(spec) {
		return ErrDuplicate
	}
	r.Observer.Started(worker, spec)
	began := time.Now()
	var err error
	record, derived := r.Store.derive(spec)
	if !derived {
		record, err = r.Run(ctx, spec, func(done, total int, stage string, loss float64) {
			r.Observer.Progressed(worker, done, total, stage, loss)
		})
	}
	if err == nil {
		record = r.complete(record, spec, time.Since(began))
		if err = r.Store.Append(record); err != nil && !errors.Is(err, ErrDuplicate) && !errors.Is(err, ErrRecord) {
			err = fmt.Errorf("%w: %w", errStore, err)
		}
	}
	r.Observer.Ended(worker, spec, record, err)
	return err
}

// complete fills in what the run function leaves to the runner.
func (r Runner) complete(record Record, spec Spec, took time.Duration) Record {
	record.Key, record.Spec, record.Version = spec.Key(), spec, r.Version
	record.Date = time.Now().UTC().Truncate(time.Second)
	if record.WallSeconds == 0 {
		record.WallSeconds = took.Round(time.Millisecond).Seconds()
	}
	m := &record.Machine
	m.CPU, m.Device = cmp.Or(m.CPU, r.Machine.CPU), cmp.Or(m.Device, r.Machine.Device)
	m.Threads, m.Precision = cmp.Or(m.Threads, r.Machine.Threads), cmp.Or(m.Precision, r.Machine.Precision)
	return record
}
