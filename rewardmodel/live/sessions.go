// Package live holds the live sessions of a process: it bounds how many there are, how
// long each may be idle and how much text each may receive.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"assay/rewardmodel"
)

// ErrIdle reports that a session received nothing for too long.
var ErrIdle = errors.New("the live session was idle for too long")

// ErrEnded reports that a session was used after its End or Close.
var ErrEnded = errors.New("the live session has ended")

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
	Bytes    int           // of text in a session; 8 MiB; never more than what the request memory allows
}

// The defaults of Limits.
const (
	DefaultSessions = 1024
	DefaultIdle     = time.Minute
	DefaultBytes    = 8 << 20
)

// Sessions are the live sessions of a process. It is safe for concurrent use. It is a
// prometheus.Collector of their metrics.
type Sessions struct {
	scorer  Scorer
	limits  Limits
	metrics *metrics

	mu     sync.Mutex
	count  int // open, and being opened
	open   map[*Session]bool
	closed bool
}

// New returns no sessions yet.
func New(scorer Scorer, limits Limits) *Sessions {
	limits.Sessions = cmp.Or(max(limits.Sessions, 0), DefaultSessions)
	limits.Idle = cmp.Or(max(limits.Idle, 0), DefaultIdle)
	limits.Bytes = cmp.Or(max(limits.Bytes, 0), DefaultBytes)
	return &Sessions{scorer: scorer, limits: limits, metrics: newMetrics(), open: map[*Session]bool{}}
}

// Open opens a session; its caller must call End. Beyond Limits.Sessions the error is
// a *rewardmodel.OverloadedError, and after Close it is rewardmodel.ErrClosed.
func (s *Sessions) Open(ctx context.Context, request rewardmodel.LiveRequest) (session *Session, err error) {
	if err := s.reserve(); err != nil {
		return nil, err
	}
	defer func() {
		if session == nil { // also after a panic
			s.unreserve()
		}
	}()
	scored, release, err := s.scorer.Live(ctx, request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		release()
		return nil, rewardmodel.ErrClosed
	}
	session = &Session{sessions: s, live: scored, release: release, done: make(chan struct{}), span: beginSpan(ctx)}
	session.mu.Lock() // expire may run before the next line
	session.idle = time.AfterFunc(s.limits.Idle, session.expire)
	session.mu.Unlock()
	s.open[session] = true
	s.metrics.open.Inc()
	return session, nil
}

// reserve counts a session that is about to be opened.
func (s *Sessions) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch {
	case s.closed:
		err = rewardmodel.ErrClosed
	case s.count >= s.limits.Sessions:
		err = &rewardmodel.OverloadedError{RetryAfter: time.Second, Reason: fmt.Sprintf("all %d live sessions are open", s.limits.Sessions)}
	default:
		s.count++
		return nil
	}
	s.metrics.ended.WithLabelValues(outcomeRefused).Inc()
	return err
}

// unreserve removes a session that was not opened.
func (s *Sessions) unreserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	s.metrics.ended.WithLabelValues(outcomeRefused).Inc()
}

// forget removes a session that has ended.
func (s *Sessions) forget(session *Session, outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	delete(s.open, session)
	s.metrics.open.Dec()
	s.metrics.ended.WithLabelValues(outcome).Inc()
}

// Close refuses further sessions and ends the open ones, with rewardmodel.ErrClosed as
// their Cause. It does not wait for calls of Feed that it interrupts.
func (s *Sessions) Close() {
	s.mu.Lock()
	s.closed = true
	open := make([]*Session, 0, len(s.open))
	for session := range s.open {
		open = append(open, session)
	}
	s.mu.Unlock()
	for _, session := range open {
		session.end(rewardmodel.ErrClosed, outcomeShutdown)
	}
}
