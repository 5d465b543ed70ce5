package batching

import (
	"fmt"
	"time"
)

// standingTime is how much work of a priority may be queued while its jobs are
// refused. A queue that stays full serves no more than a short one, only later.
const standingTime = 2 * time.Second

// promisedShare is the part of the throughput that is promised to jobs that
// were refused. The rest is what the model waits between its calls.
const promisedShare = 0.9

// Ticket identifies a job whenever it is sent.
type Ticket struct {
	ID       uint64
	Bytes    int  // of its text
	promised bool // it was refused, and comes at the time that it was promised
}

// Refusal is why a job is not admitted.
type Refusal struct {
	RetryAfter time.Duration // the time that it is promised
	Reason     string        // "": the queue is full
}

// Check refuses a job of a priority that has so many tokens or more, while the queue has
// no room for it: before all of its text is read. nil: there is room.
func (q *Queue[O]) Check(now time.Time, p Priority, t *Ticket, tokens int) *Refusal {
	t.promised = t.promised || q.waiting[p].claim(now, t.ID)
	if !q.scheduler.fits(p, q.scheduler.charge(p, tokens), q.reserved(now, t)) {
		return q.refuse(now, p, t.ID, max(tokens, q.textCost.of(t.Bytes)), 0)
	}
	return nil
}

// Admit queues a job, unless the queue is full, or so full that the job would not be
// complete at the deadline of its caller; a zero deadline is none. It returns the number of
// its sequences that were already pending.
func (q *Queue[O]) Admit(now, deadline time.Time, j *Job[O]) (coalesced int, refused *Refusal) {
	q.textCost.observe(j.Ticket.Bytes, j.tokens)
	if !deadline.IsZero() {
		if refused := q.checkDeadline(now, j, deadline.Sub(now)); refused != nil {
			return 0, refused
		}
	}
	if !q.scheduler.fits(j.Priority, q.scheduler.charge(j.Priority, j.tokens), q.reserved(now, &j.Ticket)) {
		return 0, q.refuse(now, j.Priority, j.Ticket.ID, j.tokens, 0)
	}
	q.waiting[j.Priority].take(j.Ticket.ID)
	return q.scheduler.enqueue(j), nil
}

// reserved is the part of the queue that is held for others than the job of t:
// at most half of it, in case they do not come. A promise may exceed the limit of
// its priority by as much, in case the model became slower.
func (q *Queue[O]) reserved(now time.Time, t *Ticket) (tokens [priorities]int) {
	for p := range priorities {
		half := q.scheduler.limitOf(p) / 2
		q.waiting[p].advance(now)
		switch {
		case !t.promised:
			tokens[p] = min(q.waiting[p].held, half)
		case q.scheduler.standing[p] > 0:
			tokens[p] = -half
		}
	}
	return tokens
}

// checkDeadline refuses a job that cannot be completed within the timeout of its
// caller because of the jobs ahead of it: its result would be discarded. With an
// empty queue, a job is always admitted, because the measured throughput may be that
// of another kind of work.
func (q *Queue[O]) checkDeadline(now time.Time, j *Job[O], timeout time.Duration) *Refusal {
	ahead := max(0, sum(q.reserved(now, &j.Ticket)))
	if len(q.scheduler.jobs) == 0 || q.throughput.TimeFor(q.scheduler.tokens+ahead+j.tokens) <= timeout {
		return nil
	}
	needed := q.throughput.TimeFor(q.scheduler.minTokens(j) + ahead)
	if needed <= timeout {
		return nil
	}
	refused := q.refuse(now, j.Priority, j.Ticket.ID, j.tokens, needed-timeout)
	refused.Reason = fmt.Sprintf("the request would take %v with the queued work ahead of it, longer than its timeout of %v",
		needed.Round(time.Millisecond), timeout.Round(time.Millisecond))
	return refused
}

// refuse refuses a job that counts tokens, and promises it a time: when the
// queue has room for it, but at least after wait, and after those that were refused
// before it.
func (q *Queue[O]) refuse(now time.Time, p Priority, id uint64, tokens int, wait time.Duration) *Refusal {
	if wait == 0 {
		q.scheduler.standing[p] = q.standingLimit()
		wait = q.throughput.TimeFor(q.scheduler.excess(p, tokens))
	}
	share := promisedShare
	if other := 1 - p; q.scheduler.charged[other] > 0 {
		share *= p.share()
	}
	takes := time.Duration(float64(q.throughput.TimeFor(tokens)) / share)
	return &Refusal{RetryAfter: q.waiting[p].promise(now, id, wait, takes, q.scheduler.charge(p, tokens)).Round(time.Millisecond)}
}

// queueLimit is how many tokens may wait: at most QueueTokens, and no more
// than are computed within QueueTime.
func (q *Queue[O]) queueLimit() int {
	if q.limits.QueueTime == 0 {
		return q.limits.QueueTokens
	}
	return min(q.limits.QueueTokens, max(q.throughput.capacity(q.limits.QueueTime), q.limits.BatchTokens))
}

// standingLimit is how many tokens of a priority may wait from a refusal on, until
// none of it wait.
func (q *Queue[O]) standingLimit() int {
	return min(q.queueLimit(), max(q.throughput.capacity(standingTime), 2*q.limits.BatchTokens))
}
