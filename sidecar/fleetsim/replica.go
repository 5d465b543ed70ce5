package fleetsim

import (
	"slices"
	"time"
)

// pullWait is how long a pull waits, as in package queue.
const pullWait = time.Second

// job is a response that a replica has not computed yet.
type job struct {
	message *message
	left    []int // sequences in no batch yet
	unread  int   // sequences that are not computed
}

// replica is one process: a loop that pulls, and a model that computes batch
// after batch.
type replica struct {
	*simulation
	life      int                   // counts its deaths
	free      int                   // slots, those of its pull taken off
	asked     *pull                 // nil when it does not pull
	held      map[*message]struct{} // delivered to it and not settled by it
	jobs      []*job                // with sequences left; the first one's turn is next
	computing bool

	busy    time.Duration
	batches int
	tokens  int
}

// pull asks for responses when there is room for as many as a pull may bring.
func (r *replica) pull() {
	chunk := max(1, r.fleet.Replica.MaxInFlight/4)
	if r.asked != nil || r.free < chunk {
		return
	}
	r.free -= chunk
	p := &pull{replica: r, life: r.life, wants: chunk, coming: chunk}
	r.asked = p
	r.alive(r.fleet.Broker.Hop, func() {
		r.stream.pulls = append(r.stream.pulls, p)
		r.dispatch()
		r.alive(pullWait, func() {
			if r.asked == p {
				r.stream.pulls = slices.DeleteFunc(r.stream.pulls, func(other *pull) bool { return other == p })
				r.free += p.wants
				r.asked = nil
				r.pull()
			}
		})
	})
}

// alive does it later, unless the replica dies before.
func (r *replica) alive(d time.Duration, do func()) {
	life := r.life
	r.after(d, func() {
		if r.life == life {
			do()
		}
	})
}

// receive takes a message that p asked for.
func (r *replica) receive(m *message, p *pull) {
	if p.life != r.life {
		return
	}
	if p.coming--; p.coming == 0 && r.asked == p {
		r.asked = nil
		r.pull()
	}
	r.jobs = append(r.jobs, &job{m, m.sequences, len(m.sequences)})
	r.compute()
}

// compute begins a batch unless one is being computed.
func (r *replica) compute() {
	if r.computing || len(r.jobs) == 0 {
		return
	}
	taken, tokens := r.batch()
	var done []*message
	for j, n := range taken {
		if j.unread -= n; j.unread == 0 {
			done = append(done, j.message)
		}
	}
	slices.SortFunc(done, func(a, b *message) int { return a.index - b.index })
	cost := r.fleet.Replica.Cost
	took := cost.Batch + time.Duration(tokens)*cost.Token + time.Duration(len(done))*cost.Response
	r.computing = true
	r.alive(took, func() {
		r.busy += took
		r.batches++
		r.tokens += tokens
		r.computing = false
		for _, m := range done {
			r.finish(m)
		}
		r.compute()
	})
}

// finish stores the reward of a message and frees its slot.
func (r *replica) finish(m *message) {
	life := r.life
	r.settle(m, func() {
		if r.life == life {
			delete(r.held, m)
			r.free++
			r.pull()
		}
	})
}

// batch cuts one by the rules of the backlog in package rewardmodel: the job
// whose turn it is gives a sequence, and then all jobs, that one first, give one
// after the other, each until its next does not fit. It returns how many each
// job gave.
func (r *replica) batch() (taken map[*job]int, tokens int) {
	taken = map[*job]int{}
	giving := slices.Clone(r.jobs)
	for len(giving) > 0 {
		round := giving
		giving = giving[:0]
		for _, j := range round {
			if len(j.left) == 0 || tokens > 0 && tokens+j.left[0] > r.fleet.Replica.BatchTokens {
				continue
			}
			tokens += j.left[0]
			j.left = j.left[1:]
			taken[j]++
			giving = append(giving, j)
		}
	}
	r.jobs = append(r.jobs[1:], r.jobs[0])
	r.jobs = slices.DeleteFunc(r.jobs, func(j *job) bool { return len(j.left) == 0 })
	return taken, tokens
}

// kill ends the replica; what it holds is delivered again, and another process
// takes its place.
func (r *replica) kill(down time.Duration) {
	for _, m := range r.messages { // in their order, which that of a map is not
		if _, ok := r.held[m]; ok && !m.settled {
			r.miss(m)
		}
	}
	r.life++
	r.free, r.asked, r.jobs, r.computing = 0, nil, nil, false
	clear(r.held)
	r.alive(down, func() {
		r.free = r.fleet.Replica.MaxInFlight
		r.pull()
	})
}
