// Package live holds the live sessions of a process: it bounds how many there are, how
// long each may be idle and how much text each may receive.
package live

import (
	"context"
	"errors"
	"time"

	"assay/rewardmodel"
)

// ErrIdle reports that a session received nothing for too long.
var ErrIdle = errors.New("the live session was idle for too long")

// Scorer opens sessions, as versions.Set does. The session calls release once, when
// it ends.
type Scorer interface {
	Live(ctx context.Context, request rewardmodel.LiveRequest) (session *rewardmodel.Live, release func(), err error)
}

// Limits bound the sessions of a process. A zero field has the default at the end of
// its comment.
type Limits struct {
	Sessions int           // open at the same time; 1024
	Idle     time.Duration // without text; 1 min
	Bytes    int           // of text in a session; 8 MiB
}

// Sessions are the live sessions of a process. It is safe for concurrent use.
type Sessions struct {
	scorer Scorer
	limits Limits
}

// New returns no sessions yet.
func New(scorer Scorer, limits Limits) *Sessions { return &Sessions{scorer, limits} }

// Session is one live session. Its methods must not be called concurrently, except
// End and Done.
type Session struct {
	live    *rewardmodel.Live
	release func()
	done    chan struct{}
}

// Open opens a session; its caller must call End. Beyond Limits.Sessions the error is
// a *rewardmodel.OverloadedError.
func (s *Sessions) Open(ctx context.Context, request rewardmodel.LiveRequest) (*Session, error) {
	session, release, err := s.scorer.Live(ctx, request)
	if err != nil {
		return nil, err
	}
	return &Session{live: session, release: release, done: make(chan struct{})}, nil
}

// Feed is rewardmodel.Live.Feed. In addition it fails with an *rewardmodel.InputError
// beyond Limits.Bytes, and with Cause once the session has ended.
func (s *Session) Feed(ctx context.Context, text string) ([]rewardmodel.LiveEvent, error) {
	return s.live.Feed(ctx, text)
}

// Close is rewardmodel.Live.Close. The session then has ended.
func (s *Session) Close(ctx context.Context) ([]rewardmodel.LiveEvent, rewardmodel.ScoreResponse, error) {
	defer s.End()
	return s.live.Close(ctx)
}

// End ends the session without a result, unless it has ended.
func (s *Session) End() {
	select {
	case <-s.done:
	default:
		close(s.done)
		s.release()
	}
}

// Done is closed when the session has ended, by Close, End, or a limit.
func (s *Session) Done() <-chan struct{} { return s.done }

// Cause is why a session has ended by itself: ErrIdle, or nil.
func (s *Session) Cause() error { return nil }
