package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"assay/rewardmodel/batching"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrStalled reports that a model call exceeds its limit. A call into native code
// cannot be interrupted: only a restart of the process helps.
var ErrStalled = errors.New("the model call has stalled")

// ErrBroken reports that a model fails on everything, also on what it computed before,
// because a device has failed, memory is exhausted or damaged, or native code had a
// fault: only a restart helps.
var ErrBroken = errors.New("the model is broken")

// The limit of a model call is a multiple of the time that its tokens take at the
// measured throughput, within bounds: the minimum allows for a machine under other
// load, and the maximum for a throughput that was measured on the slow first calls
// of a process.
const (
	stallFactor  = 20
	minimumLimit = time.Minute
	maximumLimit = 20 * time.Minute
)

// Watchdog notices a model call, such as a forward pass, that takes far longer
// than the calls before it. It is passive: the caller of the model reports the
// calls with Begin and End, one at a time, and what makes the model unusable with
// Broken, and asks Stalled and Usable whether to act. It is safe for concurrent use.
type Watchdog struct {
	mu         sync.Mutex
	throughput batching.Throughput
	call       *modelCall // nil while none is running

	usable context.Context
	end    context.CancelCauseFunc
}

// modelCall is a running model call.
type modelCall struct {
	sequences, tokens int
	began             time.Time
	limit             time.Duration
}

// NewWatchdog registers the gauge assay_model_stalled with reg, which may be nil.
func NewWatchdog(reg prometheus.Registerer) (*Watchdog, error) {
	w := &Watchdog{}
	w.usable, w.end = context.WithCancelCause(context.Background())
	if reg == nil {
		return w, nil
	}
	err := reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "assay_model_stalled", Help: "1 while a model call takes longer than its limit: the replica is not ready and will exit.",
	}, func() float64 {
		if w.Stalled() != nil {
			return 1
		}
		return 0
	}))
	if err != nil {
		return nil, fmt.Errorf("metrics of the watchdog: %w", err)
	}
	return w, nil
}

// Begin reports that a model call starts.
func (w *Watchdog) Begin(sequences, tokens int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := min(max(min(w.throughput.TimeFor(tokens), maximumLimit)*stallFactor, minimumLimit), maximumLimit)
	w.call = &modelCall{sequences: sequences, tokens: tokens, began: time.Now(), limit: limit}
}

// End reports that the call has returned.
func (w *Watchdog) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.throughput.Observe(w.call.tokens, time.Since(w.call.began))
	w.call = nil
}

// Broken reports that a model is broken.
func (w *Watchdog) Broken(err error) { w.end(fmt.Errorf("%w: %w", ErrBroken, err)) }

// Usable ends once a model is broken. Its cause then wraps ErrBroken.
func (w *Watchdog) Usable() context.Context { return w.usable }

// Stalled returns a *StalledError while the running call exceeds its limit.
func (w *Watchdog) Stalled() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call == nil {
		return nil
	}
	took := time.Since(w.call.began)
	if took <= w.call.limit {
		return nil
	}
	return &StalledError{Sequences: w.call.sequences, Tokens: w.call.tokens, Took: took, Limit: w.call.limit}
}

// StalledError describes a model call that exceeds its limit. It wraps ErrStalled.
type StalledError struct {
	Sequences, Tokens int           // of the batch that it computes
	Took              time.Duration // so far
	Limit             time.Duration // that it exceeds
}

func (e *StalledError) Error() string {
	return fmt.Sprintf("%v: a batch of %d sequences and %d tokens has taken %v, the limit is %v",
		ErrStalled, e.Sequences, e.Tokens, e.Took.Round(time.Second), e.Limit.Round(time.Second))
}

// Unwrap makes errors.Is(err, ErrStalled) hold.
func (e *StalledError) Unwrap() error { return ErrStalled }

// Hopeless reports whether the call has taken twice its limit: the process
// should exit, so that its supervisor starts another one.
func (e *StalledError) Hopeless() bool { return e.Took > 2*e.Limit }
