// Package live holds the live sessions of a process: it bounds how many there are, how
// long each may be idle and how much text each may receive.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"assay/rewardmodel"
)

// ErrIdle reports that a session received nothing for too long.
var ErrIdle = errors.New("the live session was idle for too long")

// errSlow is ErrIdle of a session that received some text.
var errSlow = fmt.Errorf("%w: all sessions were open, and it received less than %d bytes in the idle time", ErrIdle, slowBytes)

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
	Sessions int           // open at the same time; 1024. Beyond it, a slow one is ended for a new one
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
	if !s.reserve() {
		s.endSlow()
		if !s.reserve() {
			return nil, s.refuse()
		}
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
	now := time.Now()
	session = &Session{
		sessions: s, live: scored, release: release, done: make(chan struct{}), span: beginSpan(ctx),
		quiet: now, pace: pace{from: now},
	}
	session.mu.Lock() // expire may run before the next line
	session.idle = time.AfterFunc(s.limits.Idle, session.expire)
	session.mu.Unlock()
	s.open[session] = true
	s.metrics.open.Inc()
	return session, nil
}

// reserve counts a session that is about to be opened, if there is room.
func (s *Sessions) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.count >= s.limits.Sessions {
		return false
	}
	s.count++
	return true
}

// endSlow ends a session that has received next to nothing for longer than Limits.Idle,
// if there is one: without that, clients that send a byte now and then would keep all
// others out.
func (s *Sessions) endSlow() {
	for _, session := range s.all() {
		if session.makeRoom() {
			return
		}
	}
}

// all returns the open sessions.
func (s *Sessions) all() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// refuse counts a session that is not opened, and says why.
func (s *Sessions) refuse() error {
	s.metrics.ended.WithLabelValues(outcomeRefused).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return rewardmodel.ErrClosed
	}
	return &rewardmodel.OverloadedError{RetryAfter: time.Second, Reason: fmt.Sprintf("all %d live sessions are open", s.limits.Sessions)}
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
	s.mu.Unlock()
	for _, session := range s.all() {
		session.end(rewardmodel.ErrClosed, outcomeShutdown)
	}
}
