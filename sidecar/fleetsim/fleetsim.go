// Package fleetsim simulates replicas of assay that share one stream of
// responses on NATS: events in virtual time, with the rules of the real worker
// (package queue), the real batches (package rewardmodel) and the real consumer.
//
// What it leaves out: requests over HTTP and request-reply and the classes of
// requests, the cache and sentences that responses share, a full
// queue of the scorer (--max-queue-tokens), and failures of the model.
package fleetsim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Response is one response of a workload.
type Response struct {
	At        time.Duration // when it is published, from the start
	Sequences []int         // tokens of each sequence that the model reads of it; one at least, each above 0
}

// Cost is what a replica computes with: a batch takes Batch, Token for each of
// its tokens, and Response for each response that it finishes.
type Cost struct{ Batch, Token, Response time.Duration }

// Replica holds the settings of "assay serve".
type Replica struct {
	Cost
	MaxInFlight int // responses held at once; a quarter of them is asked for in one pull
	BatchTokens int // tokens of a batch, unless one sequence is longer
}

// Broker answers one operation after the other. Hop is the way of a message to
// or from it.
type Broker struct{ Publish, Deliver, Settle, Hop time.Duration }

// Kill ends a replica at a time; another takes its place after Down.
type Kill struct {
	Replica  int
	At, Down time.Duration
}

// Fleet is what works on the stream.
type Fleet struct {
	Replicas      int
	Replica       Replica
	Broker        Broker
	MaxAckPending int           // responses that all replicas together may hold
	AckWait       time.Duration // without a sign of life, of which three are given in that time
	Kills         []Kill
	Seed          uint64 // of when the last sign of life of a killed replica was given
}

// Default is a fleet with the defaults of "assay serve", to be given its size
// and costs.
func Default() Fleet {
	return Fleet{Replicas: 1, Replica: Replica{MaxInFlight: 256, BatchTokens: 1024}, MaxAckPending: 4096, AckWait: 10 * time.Second}
}

// ErrSetting says that a fleet or workload cannot be simulated.
var ErrSetting = errors.New("fleetsim")

func (f Fleet) validate(work []Response) error {
	r, b := f.Replica, f.Broker
	switch {
	case min(f.Replicas, f.MaxAckPending, r.MaxInFlight, r.BatchTokens) < 1:
		return fmt.Errorf("%w: replicas, max ack pending, max in flight and batch tokens must be at least 1", ErrSetting)
	case min(r.Batch, r.Token, r.Response, b.Publish, b.Deliver, b.Settle, b.Hop, f.AckWait) < 0:
		return fmt.Errorf("%w: costs and times must not be below 0", ErrSetting)
	case len(work) == 0:
		return fmt.Errorf("%w: the workload has no response", ErrSetting)
	}
	for _, w := range work {
		if w.At < 0 || len(w.Sequences) == 0 || slices.Min(w.Sequences) < 1 {
			return fmt.Errorf("%w: a response needs a time from 0 on, and sequences of 1 token at least", ErrSetting)
		}
	}
	for _, k := range f.Kills {
		if k.Replica < 0 || k.Replica >= f.Replicas || k.At < 0 || k.Down < 0 {
			return fmt.Errorf("%w: a kill of replica %d at %v for %v; replicas count from 0", ErrSetting, k.Replica, k.At, k.Down)
		}
	}
	return nil
}

// Result is what came of a workload.
type Result struct {
	Latencies   []time.Duration // of each response in the order of their times, from its time to its stored reward
	Makespan    time.Duration   // from the first response's time to the last reward
	Tokens      int
	Busy        float64 // share of the replicas' time until then that models computed, over all replicas
	BrokerBusy  float64 // likewise of the broker
	AckLimited  float64 // share of it in which MaxAckPending kept waiting responses from replicas that asked
	Batches     int
	BatchTokens float64 // mean of a batch
	Redelivered int
}

// Throughput is in rewards a second.
func (r Result) Throughput() float64 { return float64(len(r.Latencies)) / r.Makespan.Seconds() }

// Percentile of the latencies, p in [0,100].
func (r Result) Percentile(p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(r.Latencies))
	return sorted[int(math.Round(float64(len(sorted)-1)*p/100))]
}

// Run simulates until every response has its reward. The same fleet and
// workload give the same result. Errors wrap ErrSetting.
func Run(f Fleet, work []Response) (Result, error) {
	if err := f.validate(work); err != nil {
		return Result{}, err
	}
	s := &simulation{fleet: f, rng: rand.New(rand.NewPCG(f.Seed, 1)), stream: stream{most: f.MaxAckPending}}
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
