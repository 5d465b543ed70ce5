package batching

import (
	"math/rand/v2"
	"time"
)

// waitlist promises the capacity of the model to jobs that were refused, one
// after the other: each has a time at which to come back. So those that obey arrive
// about as fast as they can be served, and room is held for them when they do. A
// job is identified by its text (Ticket), since a service does not know its clients,
// and a client that retries sends the same one. It is passive: its owner
// serializes the calls, whose times do not decrease.
type waitlist struct {
	free  time.Time // from then on nothing is promised
	slots map[uint64]*slot
	order []*slot // all of slots, by time
	due   int     // how many of order are due
	ended int     // how many of those are no longer held
	held  int     // tokens for which room is held

	shown, missed float64 // the latest slots, those whose jobs came and the others
}

// slot is what a job was promised.
type slot struct {
	id     uint64
	at     time.Time
	tokens int  // that the job counts in the queue
	held   bool // room is held: it is due, and its job has not come
	taken  bool // its job came
	missed bool // it did not while room was held
}

// The times of a slot. A client comes up to a second late, since Retry-After has
// whole seconds, and many add some jitter.
const (
	minWait  = time.Second
	maxWait  = 10 * time.Minute // nothing later is promised
	slotHeld = 2 * time.Second  // how long room is held
	slotKept = 30 * time.Second // how long its job is preferred
	maxSlots = 1 << 16
)

// promise returns how long the job id has to wait: until there is room, and
// those that were promised earlier are served. A job that has a slot keeps it,
// also if there is no room when it comes: then the model was slower than expected.
// takes is how long the model needs for the job, and tokens what it counts in
// the queue. Beyond the limits nothing is promised, and the wait is random.
func (w *waitlist) promise(now time.Time, id uint64, room, takes time.Duration, tokens int) time.Duration {
	w.advance(now)
	if s := w.slots[id]; s != nil {
		return max(s.at.Sub(now), room, minWait)
	}
	at := now.Add(max(room, minWait))
	if at.Before(w.free) {
		at = w.free
	}
	if at.Sub(now) > maxWait || len(w.order) >= maxSlots {
		return maxWait - rand.N(maxWait/2) //nolint:gosec // jitter needs no cryptographic randomness
	}
	if w.slots == nil {
		w.slots = map[uint64]*slot{}
	}
	s := &slot{id: id, at: at, tokens: tokens}
	w.slots[id], w.order = s, append(w.order, s)
	w.free = at.Add(time.Duration(float64(takes) * w.showing()))
	return at.Sub(now)
}

// showing is the part of the jobs that come back. The capacity of the others is
// promised again, so that the waits stay short where most clients give up.
func (w *waitlist) showing() float64 { return (w.shown + 1) / (w.shown + w.missed + 1) }

// claim reports whether the job id comes at the time that it was promised, or
// soon after. Several clients may send the same; the model computes it once.
func (w *waitlist) claim(now time.Time, id uint64) bool {
	w.advance(now)
	s := w.slots[id]
	if s == nil || now.Before(s.at) {
		return false
	}
	w.take(id)
	return true
}

// take ends the holding of room for a job that is admitted, at any time.
func (w *waitlist) take(id uint64) {
	s := w.slots[id]
	if s == nil || s.taken {
		return
	}
	w.release(s)
	s.taken = true
	if w.shown++; s.missed {
		w.missed = max(0, w.missed-1)
	}
}

func (w *waitlist) release(s *slot) {
	if s.held {
		s.held = false
		w.held -= s.tokens
	}
}

// advance holds room for what has become due, and forgets what is over.
func (w *waitlist) advance(now time.Time) {
	for ; w.due < len(w.order) && !now.Before(w.order[w.due].at); w.due++ {
		if s := w.order[w.due]; !s.taken {
			s.held = true
			w.held += s.tokens
		}
	}
	for ; w.ended < w.due && now.Sub(w.order[w.ended].at) > slotHeld; w.ended++ {
		s := w.order[w.ended]
		w.release(s)
		const keep = 0.98
		w.shown, w.missed = w.shown*keep, w.missed*keep
		if s.missed = !s.taken; s.missed {
			w.missed++
		}
	}
	for w.ended > 0 && now.Sub(w.order[0].at) > slotKept {
		delete(w.slots, w.order[0].id)
		w.order, w.due, w.ended = w.order[1:], w.due-1, w.ended-1
	}
}
