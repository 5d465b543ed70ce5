package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

const (
	// readWithin is how long a read of what the fleet shares waits for NATS
	// before it takes what this process knows.
	readWithin = 750 * time.Millisecond
	// recallWithin bounds a read on which nobody waits.
	recallWithin = 10 * time.Second
	// recallPause is the shortest time between two of those.
	recallPause = 2 * time.Second
)

// errUnreachable says that a part did not answer within readWithin, or that it
// cannot reach what it depends on.
var errUnreachable = errors.New("NATS cannot be reached")

// lastKnown is what the fleet shares, as this process saw it last: what reads
// are answered with while NATS is away.
type lastKnown struct {
	fleet    remembered[fleet]
	training remembered[Training]
	stats    remembered[feedback.Stats]
}

// fleet is what the registry knows of all models.
type fleet struct {
	current retrain.Current
	records []retrain.Model
}

// remembered is a value with the time at which it was true.
type remembered[T any] struct {
	mu    sync.Mutex
	value T
	at    time.Time // zero: never
}

func (m *remembered[T]) set(value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value, m.at = value, time.Now()
}

func (m *remembered[T]) get() (T, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value, m.at
}

// read asks a part. Its error wraps errUnreachable where the last known value is
// the best that there is.
func read[T any](ctx context.Context, part func(context.Context) (T, error)) (T, error) {
	short, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	value, err := part(short)
	if err != nil && ctx.Err() == nil && (short.Err() != nil || errors.Is(err, feedback.ErrUnavailable)) {
		err = fmt.Errorf("%w: %w: %w", ErrNotReady, errUnreachable, err)
	}
	return value, err
}

// readOr asks a part, and answers with the last known value when NATS is away.
// The header Age then says how old that is, in seconds.
func readOr[T any](w http.ResponseWriter, r *http.Request, known *remembered[T], part func(context.Context) (T, error)) (T, error) {
	value, err := read(r.Context(), part)
	if err == nil {
		known.set(value)
		return value, nil
	}
	if last, at := known.get(); errors.Is(err, errUnreachable) && !at.IsZero() {
		setAge(w, time.Since(at))
		return last, nil
	}
	return value, err
}

func setAge(w http.ResponseWriter, age time.Duration) {
	w.Header().Set("Age", strconv.Itoa(int(age.Seconds())))
}

// recall keeps what is known up to date, so that a process that nobody has asked
// yet can answer as well: at the start, and after every event. It returns when
// ctx ends.
func (s *Server) recall(ctx context.Context) {
	for ctx.Err() == nil {
		s.events.mu.Lock()
		moved := s.events.moved
		s.events.mu.Unlock()
		if s.recallOnce(ctx) != nil {
			moved = nil // again after the pause
		}
		pause := time.NewTimer(recallPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
		if moved == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-moved:
		}
	}
}

func (s *Server) recallOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recallWithin)
	defer cancel()
	var errs []error
	if s.parts.Registry != nil {
		errs = append(errs, recallInto(ctx, &s.known.fleet, s.fleet))
	}
	if s.parts.Trainings != nil {
		errs = append(errs, recallInto(ctx, &s.known.training, s.parts.Trainings.Training))
	}
	if s.parts.FeedbackView != nil {
		errs = append(errs, recallInto(ctx, &s.known.stats, s.parts.FeedbackView.Stats))
	}
	return errors.Join(errs...)
}

func recallInto[T any](ctx context.Context, known *remembered[T], part func(context.Context) (T, error)) error {
	value, err := part(ctx)
	if err == nil {
		known.set(value)
	}
	return err
}

// fleet reads all that the registry knows.
func (s *Server) fleet(ctx context.Context) (f fleet, err error) {
	if f.current, err = s.parts.Registry.Current(ctx); err != nil {
		return f, err
	}
	f.records, err = s.parts.Registry.Models(ctx)
	return f, err
}
