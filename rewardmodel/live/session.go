package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"assay/rewardmodel"
)

// Session is one live session. Its methods must not be called concurrently, except
// End, Done and Cause.
type Session struct {
	sessions *Sessions
	live     *rewardmodel.Live
	idle     *time.Timer
	done     chan struct{}
	bytes    int  // of text so far
	stopped  bool // an event was LiveEvent.Stop since the last Reset
	span     sessionSpan

	mu      sync.Mutex
	cancel  context.CancelFunc // of the running call; nil: there is none
	ended   bool
	cause   error
	quiet   time.Time // since then no text was received or scored
	pace    pace
	release func() // of the model; called when the session has ended and no call is running
}

// ID is that of the request, or the generated one.
func (s *Session) ID() string { return s.live.ID() }

// Feed is rewardmodel.Live.Feed. In addition it fails with an *rewardmodel.InputError
// beyond Limits.Bytes, and with Cause once the session has ended. An error ends the
// session.
func (s *Session) Feed(ctx context.Context, text string) ([]rewardmodel.LiveEvent, error) {
	arrived := time.Now()
	if s.bytes += len(text); s.bytes > s.sessions.limits.Bytes {
		err := &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge, Field: "text",
			Message: fmt.Sprintf("brings the response to more than %d bytes, the limit of a live session; close the session earlier", s.sessions.limits.Bytes)}
		s.end(nil, outcomeFailed)
		return nil, err
	}
	var events []rewardmodel.LiveEvent
	err := s.call(ctx, len(text), func(ctx context.Context) (err error) {
		events, err = s.live.Feed(ctx, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.observe(events, arrived)
	return events, nil
}

// Close is rewardmodel.Live.Close. The session then has ended.
func (s *Session) Close(ctx context.Context) ([]rewardmodel.LiveEvent, rewardmodel.ScoreResponse, error) {
	arrived := time.Now()
	var events []rewardmodel.LiveEvent
	var answer rewardmodel.ScoreResponse
	err := s.call(ctx, 0, func(ctx context.Context) (err error) {
		events, answer, err = s.live.Close(ctx)
		return err
	})
	if err != nil {
		return nil, rewardmodel.ScoreResponse{}, err
	}
	s.observe(events, arrived)
	rewardmodel.DescribeAnswer(s.span, answer)
	s.end(nil, outcomeClosed)
	return events, answer, nil
}

// call runs a call of the model with so many bytes of text, which the end of the session
// cancels. A panic ends the session, as does the client that cancels its context by leaving. A call without text does not
// make it less idle.
func (s *Session) call(client context.Context, bytes int, run func(context.Context) error) (err error) {
	ctx, cancel := context.WithCancel(client)
	defer cancel()
	s.mu.Lock()
	if s.ended {
		defer s.mu.Unlock()
		return s.reason()
	}
	s.idle.Stop()
	s.cancel = cancel
	s.pace.received(bytes, time.Now(), s.sessions.limits.Idle)
	s.mu.Unlock()

	before, returned := s.live.Tokens(), false
	defer func() {
		s.sessions.metrics.tokens(before, s.live.Tokens())
		s.mu.Lock()
		s.cancel = nil
		if s.ended {
			defer s.mu.Unlock()
			s.release()
			err = s.reason()
			return
		}
		if bytes > 0 {
			s.quiet = time.Now()
		}
		s.idle.Reset(s.sessions.limits.Idle - time.Since(s.quiet))
		s.mu.Unlock()
		switch {
		case !returned:
			s.end(nil, outcomeFailed)
		case err != nil && errors.Is(client.Err(), context.Canceled):
			s.end(nil, outcomeAbandoned)
		case err != nil:
			s.end(nil, outcomeFailed)
		}
	}()
	err = run(ctx)
	returned = true
	return err
}

// reason is the error of a call after the end.
func (s *Session) reason() error {
	if s.cause != nil {
		return s.cause
	}
	return ErrEnded
}

// expire ends the session after Limits.Idle, unless it has received text meanwhile.
func (s *Session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil && time.Since(s.quiet) >= s.sessions.limits.Idle {
		s.endLocked(ErrIdle, outcomeIdle)
	}
}

// makeRoom ends the session if it is slow and no call is running. It reports whether the
// session has ended.
func (s *Session) makeRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil && s.pace.isSlow() {
		s.endLocked(errSlow, outcomeIdle)
	}
	return s.ended
}

// end ends the session, once.
func (s *Session) end(cause error, outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(cause, outcome)
}

func (s *Session) endLocked(cause error, outcome string) {
	if s.ended {
		return
	}
	s.ended, s.cause = true, cause
	s.idle.Stop()
	if s.cancel != nil {
		s.cancel() // the call releases the model
	} else {
		s.release()
	}
	s.sessions.forget(s, outcome)
	s.span.end(outcome)
	close(s.done)
}

// End ends the session without a result, unless it has ended. It cancels a running call.
func (s *Session) End() { s.end(nil, outcomeAbandoned) }

// Done is closed when the session has ended, by Close, End, an error or a limit.
func (s *Session) Done() <-chan struct{} { return s.done }

// Cause is why a session has ended by itself: ErrIdle, or rewardmodel.ErrClosed when the
// process shuts down; otherwise nil.
func (s *Session) Cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// observe counts the events of a text that arrived at the given time.
func (s *Session) observe(events []rewardmodel.LiveEvent, arrived time.Time) {
	s.span.observe(events)
	verdicts := false
	for _, e := range events {
		if e.Stop && !s.stopped {
			s.sessions.metrics.stops.Inc()
		}
		s.stopped = e.Stop
		verdicts = verdicts || !e.Reset && !e.Utterance.Provisional
	}
	if verdicts {
		s.sessions.metrics.verdict.Observe(time.Since(arrived).Seconds())
	}
}
