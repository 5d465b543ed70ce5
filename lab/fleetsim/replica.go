package fleetsim

import (
	"slices"
	"time"
)

// pullWait is the timeout of a pull, as in package queue.
const pullWait = time.Second

// job is a response that a replica has not computed yet.
type job struct {
	message    *message
	left       []int // sequences in no batch yet
	uncomputed int   // sequences
}

// replica is one process: a loop that pulls, and a model that computes batch after batch.
type replica struct {
	*simulation
	life      int                   // number of its kills
	free      int                   // slots, without those of its pull
	open      *pull                 // nil when it does not pull
	held      map[*message]struct{} // delivered to it and not acknowledged by it
	jobs      []*job                // with sequences left; the first one is next
	computing bool

	busy    time.Duration
	batches int
	tokens  int
}

// pull asks for responses when there are free slots for all that a pull may return.
func (r *replica) pull() {
	chunk := max(1, r.fleet.Replica.MaxInFlight/4)
	if r.open != nil || r.free < chunk {
		return
	}
	r.free -= chunk
	p := &pull{replica: r, life: r.life, wants: chunk, coming: chunk}
	r.open = p
	r.alive(r.fleet.Broker.Hop, func() {
		r.stream.pulls = append(r.stream.pulls, p)
		r.dispatch()
		r.alive(pullWait, func() {
			if r.open == p {
				r.stream.pulls = slices.DeleteFunc(r.stream.pulls, func(other *pull) bool { return other == p })
				r.free += p.wants
				r.open = nil
				r.pull()
			}
		})
	})
}

// alive schedules do, unless the replica is killed first.
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
	if p.coming--; p.coming == 0 && r.open == p {
		r.open = nil
		r.pull()
	}
	r.jobs = append(r.jobs, &job{m, m.sequences, len(m.sequences)})
	r.compute()
}

// compute starts a batch unless one is being computed.
func (r *replica) compute() {
	if r.computing || len(r.jobs) == 0 {
		return
	}
	taken, tokens := r.batch()
	var done []*message
	for j, n := range taken {
		if j.uncomputed -= n; j.uncomputed == 0 {
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

// finish stores the reward of a message and then frees its slot.
func (r *replica) finish(m *message) {
	life := r.life
	r.store(m, func() {
		if r.life == life {
			delete(r.held, m)
			r.free++
			r.pull()
		}
	})
}

// batch forms a batch by the rules of the scheduler in package rewardmodel: round-robin over the jobs, one sequence of
// each per round, each job until its next sequence does not fit. It returns the number of sequences of each job.
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

// kill kills the replica; the messages that it holds are redelivered, and another process replaces it after down.
func (r *replica) kill(down time.Duration) {
	for _, m := range r.messages { // in order, unlike the map
		if _, ok := r.held[m]; ok && !m.done {
			r.redeliver(m)
		}
	}
	r.life++
	r.free, r.open, r.jobs, r.computing = 0, nil, nil, false
	clear(r.held)
	r.alive(down, func() {
		r.free = r.fleet.Replica.MaxInFlight
		r.pull()
	})
}
