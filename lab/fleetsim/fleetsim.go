// Package fleetsim simulates replicas of assay that share one stream of responses on NATS: events in virtual time, with
// the rules of the real worker (package queue), the real batches (package rewardmodel) and the real consumer.
//
// It omits requests over HTTP and request-reply and their priorities, the cache and sentences that responses share, a
// full queue of the scorer (--max-queue-tokens), and failures of the model.
package fleetsim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"assay/lab/stats"
)

// Response is one response of a workload.
type Response struct {
	At        time.Duration // when it is published, from the start
	Sequences []int         // tokens of each of its sequences; at least one sequence, each above 0
}

// Cost is the computing time of a replica: Batch per batch, Token per token of it, and Response per response that it
// completes.
type Cost struct{ Batch, Token, Response time.Duration }

// Replica holds the settings of "assay serve".
type Replica struct {
	Cost
	MaxInFlight int // maximum responses held; one pull asks for a quarter of them
	BatchTokens int // maximum tokens of a batch, unless one sequence is longer
}

// Broker processes operations one after another. Hop is the network latency of a message to or from it.
type Broker struct{ Publish, Deliver, Settle, Hop time.Duration }

// Kill kills a replica at a time; another replaces it after Down.
type Kill struct {
	Replica  int
	At, Down time.Duration
}

// Fleet is a set of replicas that consume the stream, and its broker.
type Fleet struct {
	Replicas      int
	Replica       Replica
	Broker        Broker
	MaxAckPending int           // responses that all replicas together may hold
	AckWait       time.Duration // without a heartbeat, of which there are three in that time
	Kills         []Kill
	Seed          uint64 // of the times of the last heartbeats of killed replicas
}

// Default returns a fleet with the defaults of "assay serve", without costs.
func Default() Fleet {
	return Fleet{Replicas: 1, Replica: Replica{MaxInFlight: 256, BatchTokens: 1024}, MaxAckPending: 4096, AckWait: 10 * time.Second}
}

// ErrSetting reports that a fleet or workload cannot be simulated.
var ErrSetting = errors.New("fleetsim")

func (f Fleet) validate(work []Response) error {
	r, b := f.Replica, f.Broker
	switch {
	case min(f.Replicas, f.MaxAckPending, r.MaxInFlight, r.BatchTokens) < 1:
		return fmt.Errorf("%w: replicas, max ack pending, max in flight and batch tokens must be at least 1", ErrSetting)
	case min(r.Batch, r.Token, r.Response, b.Publish, b.Deliver, b.Settle, b.Hop, f.AckWait) < 0:
		return fmt.Errorf("%w: costs and times must not be negative", ErrSetting)
	case len(work) == 0:
		return fmt.Errorf("%w: the workload has no response", ErrSetting)
	}
	for _, w := range work {
		if w.At < 0 || len(w.Sequences) == 0 || slices.Min(w.Sequences) < 1 {
			return fmt.Errorf("%w: a response needs a time of at least 0 and sequences of at least 1 token", ErrSetting)
		}
	}
	for _, k := range f.Kills {
		if k.Replica < 0 || k.Replica >= f.Replicas || k.At < 0 || k.Down < 0 {
			return fmt.Errorf("%w: invalid kill of replica %d at %v for %v; replicas count from 0", ErrSetting, k.Replica, k.At, k.Down)
		}
	}
	return nil
}

// Result is the outcome of a workload.
type Result struct {
	Latencies   []time.Duration // of each response in the order of their times, from its time to its stored reward
	Makespan    time.Duration   // from the first response's time to the last reward
	Tokens      int
	Busy        float64 // share of the makespan in which models computed, over all replicas
	BrokerBusy  float64 // share in which the broker was busy
	AckLimited  float64 // share in which MaxAckPending withheld waiting responses from replicas that asked for some
	Batches     int
	BatchTokens float64 // mean of a batch
	Redelivered int
}

// Throughput returns rewards per second.
func (r Result) Throughput() float64 { return float64(len(r.Latencies)) / r.Makespan.Seconds() }

// Percentile returns a percentile of the latencies; p is in [0,100].
func (r Result) Percentile(p int) time.Duration {
	return stats.Percentile(slices.Sorted(slices.Values(r.Latencies)), p)
}

// Run simulates until every response has its reward. The same fleet and workload give the same result. Errors wrap
// ErrSetting.
func Run(f Fleet, work []Response) (Result, error) {
	if err := f.validate(work); err != nil {
		return Result{}, err
	}
	s := &simulation{fleet: f, rng: rand.New(rand.NewPCG(f.Seed, 1)), stream: stream{limit: f.MaxAckPending}}
	for range f.Replicas {
		r := &replica{simulation: s, free: f.Replica.MaxInFlight, held: map[*message]struct{}{}}
		s.replicas = append(s.replicas, r)
		s.after(0, r.pull)
	}
	work = slices.SortedStableFunc(slices.Values(work), func(a, b Response) int { return cmp.Compare(a.At, b.At) })
	for i, w := range work {
		m := &message{index: i, published: w.At, sequences: w.Sequences}
		s.messages = append(s.messages, m)
		s.at(w.At, func() { s.broker(f.Broker.Publish, func() { s.arrive(m) }) })
	}
	for _, k := range f.Kills {
		s.at(k.At, func() { s.replicas[k.Replica].kill(k.Down) })
	}
	for s.left = len(work); s.left > 0; {
		s.step()
	}
	return s.result(), nil
}

func (s *simulation) result() Result {
	out := Result{Redelivered: s.redelivered, Latencies: make([]time.Duration, len(s.messages))}
	for i, m := range s.messages {
		out.Latencies[i] = m.stored - m.published
		for _, n := range m.sequences {
			out.Tokens += n
		}
	}
	out.Makespan = s.now - s.messages[0].published
	var busy time.Duration
	tokens := 0
	for _, r := range s.replicas {
		busy += r.busy
		out.Batches += r.batches
		tokens += r.tokens
	}
	if out.Makespan > 0 {
		out.Busy = busy.Seconds() / out.Makespan.Seconds() / float64(len(s.replicas))
		out.BrokerBusy = min(1, s.brokerBusy.Seconds()/out.Makespan.Seconds())
		out.AckLimited = s.limited.Seconds() / out.Makespan.Seconds()
	}
	out.BatchTokens = float64(tokens) / float64(max(1, out.Batches))
	return out
}
