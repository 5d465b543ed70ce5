// Package load generates requests and measures how long they take: closed loops, in which a sender waits for its reply,
// and open loops, in which requests are sent at fixed times whether or not earlier replies have arrived.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"assay/lab/stats"
)

// Schedule specifies when requests are sent.
type Schedule struct {
	// Concurrency is the maximum number of requests in flight.
	Concurrency int
	// More reports whether request i, counted from 0, is sent; elapsed is the time since the start. It may be called
	// again after it has returned false.
	More func(i int, elapsed time.Duration) bool
	// Due are the times at which requests are sent, from the start (open loop). Latency counts from then, even where all
	// of Concurrency are busy and a request leaves later. nil: each leaves as soon as another one ends (closed loop).
	Due []time.Duration
	// Pause is the time that each sender waits after a reply.
	Pause time.Duration
}

// First is a Schedule.More that sends n requests.
func First(n int) func(int, time.Duration) bool {
	return func(i int, _ time.Duration) bool { return i < n }
}

// Result is what a run measured.
type Result struct {
	Elapsed   time.Duration         // from the start to the last reply
	Latencies []time.Duration       // of the requests that succeeded, sorted
	ByRequest map[int]time.Duration // the same, by the number of the request
	Delays    []time.Duration       // of an open loop: from the due time of each request until it was sent, sorted
	Failed    int                   // requests
	LastError error                 // of those
}

// Percentile returns a percentile of the latencies; p is in [0,100].
func (r Result) Percentile(p int) time.Duration { return stats.Percentile(r.Latencies, p) }

// Rate returns the successful requests per second.
func (r Result) Rate() float64 { return float64(len(r.Latencies)) / r.Elapsed.Seconds() }

// Err returns an error where every request failed.
func (r Result) Err() error {
	if r.Failed == 0 || len(r.Latencies) > 0 {
		return nil
	}
	return fmt.Errorf("every request failed: %w", r.LastError)
}

// Run sends requests by the schedule and waits for those in flight. send sends request i and returns the reply; check,
// unless it is nil, may reject the reply and does not count as latency. Both are called from several goroutines. A
// request that fails is counted, unless ctx is done. The only error of Run is that of ctx.
func Run(ctx context.Context, s Schedule, send func(ctx context.Context, i int) ([]byte, error), check func(i int, reply []byte) error) (Result, error) {
	g := &generator{Schedule: s, send: send, check: check, began: time.Now(), result: Result{ByRequest: map[int]time.Duration{}}}
	var senders sync.WaitGroup
	for range s.Concurrency {
		senders.Go(func() { g.loop(ctx) })
	}
	senders.Wait()
	g.result.Elapsed = time.Since(g.began)
	slices.Sort(g.result.Latencies)
	slices.Sort(g.result.Delays)
	return g.result, ctx.Err()
}

type generator struct {
	Schedule
	send  func(ctx context.Context, i int) ([]byte, error)
	check func(i int, reply []byte) error
	began time.Time

	mu     sync.Mutex
	next   int
	result Result
}

// loop is one sender.
func (g *generator) loop(ctx context.Context) {
	for i, ok := g.take(ctx); ok; i, ok = g.take(ctx) {
		sent := time.Now()
		if g.Due != nil {
			sent = g.began.Add(g.Due[i])
			if WaitUntil(ctx, sent) != nil {
				return
			}
		}
		left := time.Now()
		reply, err := g.send(ctx, i)
		latency := time.Since(sent)
		if err == nil && g.check != nil {
			err = g.check(i, reply)
		}
		if err != nil && ctx.Err() != nil {
			return // the run ended, not the request
		}
		g.add(i, latency, left.Sub(sent), err)
		if g.Pause > 0 && WaitUntil(ctx, time.Now().Add(g.Pause)) != nil {
			return
		}
	}
}

// take returns the number of the next request.
func (g *generator) take(ctx context.Context) (i int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ctx.Err() != nil || !g.More(g.next, time.Since(g.began)) {
		return 0, false
	}
	g.next++
	return g.next - 1, true
}

func (g *generator) add(i int, latency, delay time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Due != nil {
		g.result.Delays = append(g.result.Delays, delay)
	}
	if err != nil {
		g.result.Failed, g.result.LastError = g.result.Failed+1, err
		return
	}
	g.result.Latencies = append(g.result.Latencies, latency)
	g.result.ByRequest[i] = latency
}

// WaitUntil waits until t, or until ctx is done, whose error it then returns.
func WaitUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
