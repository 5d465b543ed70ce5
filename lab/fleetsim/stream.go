package fleetsim

import "time"

// message is a response in the stream.
type message struct {
	index             int
	published, stored time.Duration
	sequences         []int // tokens of each
	done              bool  // its reward is stored
}

// pull is a request for messages that waits at the consumer.
type pull struct {
	replica *replica
	life    int // of the replica that asked
	wants   int // messages not yet delivered
	coming  int // messages not yet received
}

// stream is the work queue with its consumer.
type stream struct {
	limit   int        // of pending
	pending int        // delivered and not acknowledged
	again   []*message // to be redelivered, before any other
	waiting []*message
	pulls   []*pull
}

// limited reports whether responses and replicas wait only for acknowledgements.
func (q *stream) limited() bool {
	return q.pending >= q.limit && len(q.waiting) > 0 && len(q.pulls) > 0
}

// next matches a message with a pull. A pull that wants more moves to the end, as in the server, so that waiting replicas
// share evenly.
func (q *stream) next() (m *message, to *pull) {
	for len(q.pulls) > 0 && q.pulls[0].replica.life != q.pulls[0].life {
		q.pulls = q.pulls[1:] // its replica was killed
	}
	switch {
	case len(q.pulls) == 0:
		return nil, nil
	case len(q.again) > 0: // which is still pending
		m, q.again = q.again[0], q.again[1:]
	case len(q.waiting) > 0 && q.pending < q.limit:
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

// dispatch delivers the messages that the limits allow.
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

// store stores the reward of a message that a replica has computed, once even where it was computed several times, and
// then acknowledges the message.
func (s *simulation) store(m *message, then func()) {
	s.after(s.fleet.Broker.Hop, func() {
		s.broker(s.fleet.Broker.Settle, func() {
			first := !m.done
			if first {
				m.done, m.stored = true, s.now
				s.left--
			}
			s.after(2*s.fleet.Broker.Hop, func() { // the reply, and the acknowledgement
				if first {
					s.stream.pending--
				}
				then()
				s.dispatch()
			})
		})
	})
}

// redeliver delivers a message again when its replica has sent no heartbeat for AckWait. The last heartbeat came at a
// random time in the third of AckWait before the kill.
func (s *simulation) redeliver(m *message) {
	wait := s.fleet.AckWait
	s.after(wait-time.Duration(s.rng.Int64N(int64(wait/3)+1)), func() {
		if !m.done {
			s.redelivered++
			s.stream.again = append(s.stream.again, m)
			s.dispatch()
		}
	})
}
