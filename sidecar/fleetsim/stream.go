package fleetsim

import "time"

// message is a response in the stream.
type message struct {
	index             int
	published, stored time.Duration
	sequences         []int // tokens of each
	settled           bool
}

// pull is a request for messages that waits at the consumer.
type pull struct {
	replica *replica
	life    int // of the replica that asked
	wants   int // messages more
	coming  int // that it has not received yet
}

// stream is the work queue with its one consumer.
type stream struct {
	most    int        // that may be pending
	pending int        // delivered and not acknowledged
	again   []*message // to be delivered again, before any other
	waiting []*message
	pulls   []*pull
}

// limited tells that responses and replicas wait for acknowledgements alone.
func (q *stream) limited() bool {
	return q.pending >= q.most && len(q.waiting) > 0 && len(q.pulls) > 0
}

// next matches a message with a pull. A pull that wants more goes to the end,
// as in the server, so that replicas that wait share evenly.
func (q *stream) next() (m *message, to *pull) {
	for len(q.pulls) > 0 && q.pulls[0].replica.life != q.pulls[0].life {
		q.pulls = q.pulls[1:] // it died
	}
	switch {
	case len(q.pulls) == 0:
		return nil, nil
	case len(q.again) > 0: // which is pending still
		m, q.again = q.again[0], q.again[1:]
	case len(q.waiting) > 0 && q.pending < q.most:
		m, q.waiting = q.waiting[0], q.waiting[1:]
		q.pending++
	default:
		return nil, nil
	}
	to, q.pulls = q.pulls[0], q.pulls[1:]
	if to.wants--; to.wants > 0 {
		q.pulls = append(q.pulls, to)
	}
	return m, to
}

// arrive stores a response.
func (s *simulation) arrive(m *message) {
	s.stream.waiting = append(s.stream.waiting, m)
	s.dispatch()
}

// dispatch delivers what may be delivered.
func (s *simulation) dispatch() {
	for {
		m, to := s.stream.next()
		if m == nil {
			return
		}
		r := to.replica
		r.held[m] = struct{}{}
		s.broker(s.fleet.Broker.Deliver, func() {
			s.after(s.fleet.Broker.Hop, func() { r.receive(m, to) })
		})
	}
}

// settle stores the reward of a message that a replica has computed, once
// however often it was computed, and then takes it off the stream.
func (s *simulation) settle(m *message, then func()) {
	s.after(s.fleet.Broker.Hop, func() {
		s.broker(s.fleet.Broker.Settle, func() {
			first := !m.settled
			if first {
				m.settled, m.stored = true, s.now
				s.left--
			}
			s.after(2*s.fleet.Broker.Hop, func() { // the answer, and the acknowledgement
				if first {
					s.stream.pending--
				}
				then()
				s.dispatch()
			})
		})
	})
}

// miss delivers a message again when its replica has given no sign of life for
// as long as the consumer waits; the last one came at some time in the third of
// that before its death.
func (s *simulation) miss(m *message) {
	wait := s.fleet.AckWait
	s.after(wait-time.Duration(s.rng.Int64N(int64(wait/3)+1)), func() {
		if !m.settled {
			s.redelivered++
			s.stream.again = append(s.stream.again, m)
			s.dispatch()
		}
	})
}
