package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"assay/lab/load"
)

// kind is one sort of honest request.
type kind struct {
	name      string
	clients   int
	responses int
	pause     time.Duration
}

var kinds = []kind{
	{"one response", 4, 1, 200 * time.Millisecond},
	{"64 responses", 2, 64, 2 * time.Second},
}

// body is a new request, so that no cache has its result.
func (k kind) body(number int64) ([]byte, error) {
	type response struct {
		Response string `json:"response"`
	}
	responses := make([]response, k.responses)
	for i := range responses {
		responses[i].Response = fmt.Sprintf("You explain case %d of %d well. The second part answers what I asked, as in reply %d.", i, number, number)
	}
	return json.Marshal(map[string]any{"responses": responses})
}

// measured is the measurement of honest clients of one kind.
type measured struct {
	load.Result
	mu       sync.Mutex
	retried  int // attempts that got 503 and were retried
	failures map[string]int
}

const (
	retries    = 10
	retryAfter = time.Second
)

// honest runs the clients of all kinds for a while, each as a trainer would: it retries a 503 after a second, up to ten
// times.
func honest(ctx context.Context, p *victim, d time.Duration) (map[string]*measured, error) {
	ended, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	out := map[string]*measured{}
	var running sync.WaitGroup
	for _, k := range kinds {
		m := &measured{failures: map[string]int{}}
		out[k.name] = m
		running.Go(func() {
			to := load.NewHTTP(p.URL+"/v1/score", k.clients)
			defer to.Close()
			schedule := load.Schedule{Concurrency: k.clients, Pause: k.pause, More: func(int, time.Duration) bool { return true }}
			// Its only error is that of the context: the end of the measurement.
			m.Result, _ = load.Run(ended, schedule, func(ctx context.Context, _ int) ([]byte, error) { return m.send(ctx, to, k) }, nil)
		})
	}
	running.Wait()
	return out, ctx.Err()
}

// send sends one request until the service accepts it.
func (m *measured) send(ctx context.Context, to load.HTTP, k kind) ([]byte, error) {
	body, err := k.body(time.Now().UnixNano())
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		reply, err := to.Send(ctx, body)
		var status *load.StatusError
		full := errors.As(err, &status) && status.Code == http.StatusServiceUnavailable
		if full && attempt < retries && load.WaitUntil(ctx, time.Now().Add(retryAfter)) == nil {
			m.count(func() { m.retried++ })
			continue
		}
		if err != nil && ctx.Err() == nil {
			m.count(func() { m.failures[failure(err)]++ })
		}
		return reply, err
	}
}

func (m *measured) count(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

// failure classifies an error: the status, or the kind of a transport error.
func failure(err error) string {
	var status *load.StatusError
	if errors.As(err, &status) {
		return fmt.Sprint(status.Code)
	}
	return fmt.Sprintf("no response (%T)", errors.Unwrap(err))
}

func printTable(w io.Writer, before, during map[string]*measured) {
	fmt.Fprintln(w, "| honest request | attack | sent | served | 503, retried | p50 | p99 | failures |")
	fmt.Fprintln(w, "|---|---|---:|---:|---:|---:|---:|---|")
	for _, k := range kinds {
		for _, row := range []struct {
			name string
			m    *measured
		}{{"no", before[k.name]}, {"yes", during[k.name]}} {
			m := row.m
			sent := len(m.Latencies) + m.Failed
			fmt.Fprintf(w, "| %s | %s | %d | %.2f %% | %d | %v | %v | %v |\n", k.name, row.name, sent,
				100*float64(len(m.Latencies))/float64(max(sent, 1)), m.retried,
				m.Percentile(50).Round(time.Millisecond), m.Percentile(99).Round(time.Millisecond), m.failures)
		}
	}
}
