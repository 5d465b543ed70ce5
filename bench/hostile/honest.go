package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
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

// body is a request that was never sent before, so that no cache answers it.
func (k kind) body(number int64) []byte {
	type response struct {
		Response string `json:"response"`
	}
	responses := make([]response, k.responses)
	for i := range responses {
		responses[i].Response = fmt.Sprintf("You explain case %d of %d well. The second part answers what I asked, as in reply %d.", i, number, number)
	}
	body, _ := json.Marshal(map[string]any{"responses": responses}) // always encodes
	return body
}

// measured is what honest clients of one kind saw.
type measured struct {
	mu       sync.Mutex
	sent, ok int
	retried  int // attempts answered 503, and sent again after Retry-After
	took     []time.Duration
	failures map[string]int
}

// honest has the clients of all kinds send for a while, each as a trainer
// would: 503 is sent again after a second, up to ten times.
func honest(ctx context.Context, p *service, d time.Duration) map[string]*measured {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	out := map[string]*measured{}
	var clients sync.WaitGroup
	for _, k := range kinds {
		m := &measured{failures: map[string]int{}}
		out[k.name] = m
		for range k.clients {
			clients.Go(func() {
				for ctx.Err() == nil {
					m.one(ctx, p, k)
					pause(ctx, k.pause)
				}
			})
		}
	}
	clients.Wait()
	return out
}

func (m *measured) one(ctx context.Context, p *service, k kind) {
	start := time.Now()
	failure := ""
	body := k.body(start.UnixNano())
	retried := 0
	for range 10 {
		failure = post(ctx, "http://"+p.http+"/v1/score", body)
		if failure != "503" {
			break
		}
		retried++
		pause(ctx, time.Second)
	}
	if ctx.Err() != nil && failure != "" {
		return // the end of the measurement
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent++
	m.retried += retried
	if failure != "" {
		m.failures[failure]++
		return
	}
	m.ok++
	m.took = append(m.took, time.Since(start))
}

// post returns "" or what went wrong.
func post(ctx context.Context, url string, body []byte) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Sprintf("no answer (%T)", errors.Unwrap(err))
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return "half an answer"
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Sprint(response.StatusCode)
	}
	return ""
}

func (m *measured) quantile(q float64) time.Duration {
	if len(m.took) == 0 {
		return 0
	}
	slices.Sort(m.took)
	return m.took[min(int(q*float64(len(m.took))), len(m.took)-1)].Round(time.Millisecond)
}

func printTable(before, during map[string]*measured) {
	fmt.Println("| honest request | attack | sent | served | 503, sent again | p50 | p99 | failures |")
	fmt.Println("|---|---|---:|---:|---:|---:|---:|---|")
	for _, k := range kinds {
		for _, row := range []struct {
			name string
			m    *measured
		}{{"no", before[k.name]}, {"yes", during[k.name]}} {
			m := row.m
			fmt.Printf("| %s | %s | %d | %.2f %% | %d | %v | %v | %v |\n", k.name, row.name, m.sent,
				100*float64(m.ok)/float64(max(m.sent, 1)), m.retried, m.quantile(.5), m.quantile(.99), m.failures)
		}
	}
}
