package fleetsim

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// event happens at a time; simultaneous events happen in the order in which they were scheduled.
type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simulation is the state at a point in virtual time.
type simulation struct {
	fleet    Fleet
	rng      *rand.Rand
	now      time.Duration
	pending  events
	order    int
	messages []*message
	replicas []*replica
	left     int // messages without a reward
	stream   stream

	brokerFree  time.Duration // when the broker completes its last operation
	brokerBusy  time.Duration
	limited     time.Duration // how long max ack pending held responses back
	redelivered int
}

func (s *simulation) at(t time.Duration, do func()) {
	s.order++
	heap.Push(&s.pending, event{max(t, s.now), s.order, do})
}

func (s *simulation) after(d time.Duration, do func()) { s.at(s.now+d, do) }

// step advances to the next event. While a response has no reward there is one: its arrival, its acknowledgement, or
// the end of a pull.
func (s *simulation) step() {
	next := heap.Pop(&s.pending).(event)
	if s.stream.limited() {
		s.limited += next.at - s.now
	}
	s.now = next.at
	next.do()
}

// broker queues an operation at the broker.
func (s *simulation) broker(cost time.Duration, then func()) {
	s.brokerFree = max(s.brokerFree, s.now) + cost
	s.brokerBusy += cost
	s.at(s.brokerFree, then)
}
