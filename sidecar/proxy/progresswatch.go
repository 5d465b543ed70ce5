package proxy

import (
	"context"
	"sync"
	"time"
)

// progressWatch ends a session of a service that reports progress once text was sent to
// it that is not scored within the timeout. It is safe for concurrent use.
type progressWatch struct {
	remote *Remote
	end    context.CancelCauseFunc

	mu      sync.Mutex
	bytes   int         // sent
	pending []sentPiece // not scored, the oldest first
	timer   *time.Timer // nil: nothing is due
	since   time.Time   // when the clock stopped; zero: it runs
	stopped bool
}

// sentPiece is text up to a byte offset.
type sentPiece struct {
	end int
	due time.Time
}

// start watches a session that is being opened, which is progress that is due as well.
func (w *progressWatch) start(remote *Remote, end context.CancelCauseFunc) {
	w.remote, w.end = remote, end
	w.sent(0)
}

// sent notes text of so many bytes.
func (w *progressWatch) sent(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.remote.timeout == 0 {
		return
	}
	w.bytes += bytes
	now := time.Now()
	if !w.since.IsZero() {
		now = w.since // reporting adds the rest
	}
	w.pending = append(w.pending, sentPiece{w.bytes, now.Add(w.remote.timeout)})
	if w.timer == nil && w.since.IsZero() {
		w.timer = time.AfterFunc(w.remote.timeout, w.expire)
	}
}

// reporting calls report with the clock stopped. It blocks while the client does not read,
// and the progress of the service that follows waits for that.
func (w *progressWatch) reporting(report func()) {
	w.mu.Lock()
	w.since = time.Now()
	w.mu.Unlock()
	report()
	w.mu.Lock()
	defer w.mu.Unlock()
	waited := time.Since(w.since)
	w.since = time.Time{}
	for i := range w.pending {
		w.pending[i].due = w.pending[i].due.Add(waited)
	}
	if w.timer == nil && len(w.pending) > 0 && !w.stopped {
		w.timer = time.AfterFunc(time.Until(w.pending[0].due), w.expire)
	}
}

// scored notes that the service has scored the first bytes of the text.
func (w *progressWatch) scored(bytes int) {
	w.remote.progressed()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) > 0 && w.pending[0].end <= bytes {
		w.pending = w.pending[1:]
	}
}

// expire ends the session if the oldest piece is due, and otherwise waits for that.
func (w *progressWatch) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
	if w.stopped || !w.since.IsZero() {
		return // reporting sets the timer again
	}
	if !w.remote.reports.Load() {
		w.pending = nil
	}
	if len(w.pending) == 0 {
		return // the next piece sets the timer
	}
	if left := time.Until(w.pending[0].due); left > 0 {
		w.timer = time.AfterFunc(left, w.expire)
		return
	}
	w.stopped = true
	s := &stall{w.remote.timeout}
	w.remote.stalled.Store(s)
	w.end(s)
}

// stop ends the watch.
func (w *progressWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
