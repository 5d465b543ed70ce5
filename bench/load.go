package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Case is a piece of work, and how it is sent.
type Case struct {
	Name        string
	Work        []Response
	Size        int // responses of a request
	Concurrency int // requests in flight
	Judged      bool
}

// asker exchanges the body of a request for that of its answer.
type asker interface {
	Ask(ctx context.Context, body []byte) ([]byte, error)
}

// Load is what a server did with a case.
type Load struct {
	Elapsed   time.Duration
	Latencies []time.Duration // of the requests that were answered, sorted
	Failed    int             // requests
	LastError error           // of those
	Answered  []Response
	Scores    []float64 // of Case.Work; NaN-free where Scored
	Scored    []bool
}

// Percentile is a latency, by nearest rank; p is in [0,100]. 0 where nothing was answered.
func (l Load) Percentile(p int) time.Duration {
	if len(l.Latencies) == 0 {
		return 0
	}
	rank := (len(l.Latencies)*p + 99) / 100
	return l.Latencies[max(rank, 1)-1]
}

// run sends the case in requests, Concurrency of them in flight. No request leaves after limit, where that is above 0;
// those in flight are waited for. A request that fails is counted; run itself fails only when it is told to stop or
// cannot write a request.
func run(ctx context.Context, to asker, c codec, of Case, limit time.Duration) (Load, error) {
	parts := slices.Collect(slices.Chunk(of.Work, of.Size))
	bodies := make([][]byte, len(parts))
	for i, part := range parts {
		var err error
		if bodies[i], err = c.Encode(part); err != nil {
			return Load{}, err
		}
	}
	l := Load{Scores: make([]float64, len(of.Work)), Scored: make([]bool, len(of.Work))}
	var (
		mu      sync.Mutex
		next    int
		workers sync.WaitGroup
		began   = time.Now()
	)
	take := func() (i int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(bodies) || ctx.Err() != nil || limit > 0 && time.Since(began) > limit {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(of.Concurrency, len(bodies)) {
		workers.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				sent := time.Now()
				answer, err := to.Ask(ctx, bodies[i])
				latency := time.Since(sent)
				var scores []float64
				if err == nil {
					scores, err = c.Decode(answer, parts[i])
				}
				mu.Lock()
				l.add(i*of.Size, parts[i], latency, scores, err)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	l.Elapsed = time.Since(began)
	slices.Sort(l.Latencies)
	return l, ctx.Err()
}

func (l *Load) add(at int, part []Response, latency time.Duration, scores []float64, err error) {
	if err != nil {
		l.Failed, l.LastError = l.Failed+1, err
		return
	}
	l.Latencies = append(l.Latencies, latency)
	l.Answered = append(l.Answered, part...)
	for k, score := range scores {
		l.Scores[at+k], l.Scored[at+k] = score, true
	}
}

// httpAsker posts to one address over connections that it keeps.
type httpAsker struct {
	client *http.Client
	url    string
}

func newHTTPAsker(url string, connections int) httpAsker {
	return httpAsker{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}, url}
}

func (h httpAsker) Ask(ctx context.Context, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", h.url, res.Status, answer)
	}
	return answer, err
}

func (h httpAsker) Close() { h.client.CloseIdleConnections() }

// natsAsker asks on one subject.
type natsAsker struct {
	conn    *nats.Conn
	subject string
}

func (n natsAsker) Ask(ctx context.Context, body []byte) ([]byte, error) {
	reply, err := n.conn.RequestWithContext(ctx, n.subject, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.subject, err)
	}
	if why := reply.Header.Get("Nats-Service-Error"); why != "" {
		return nil, fmt.Errorf("%s: %s %s", n.subject, reply.Header.Get("Nats-Service-Error-Code"), why)
	}
	return reply.Data, nil
}

func (n natsAsker) Close() { n.conn.Close() }
