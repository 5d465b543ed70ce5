package live

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	assay "assay/clients/go"
	"assay/lab/load"
	"assay/lab/stats"
)

const (
	floodTexts     = 64                     // texts of the honest clients
	floodSentences = 3                      // of each
	floodDialers   = 256                    // sessions that are being opened at the same time
	floodPause     = 200 * time.Millisecond // between two requests of an honest client
)

// floodOpening is what a client of the flood sends: the service must keep the text, and has no verdict on it.
const floodOpening = `{"open":{"progress":true}}` + "\n" + `{"text":"This is half of a"}` + "\n"

// flood opens the sessions. It returns when each of them has had a response, or none in time; those that are open stay
// open in connections, which it closes.
func (c *floodCmd) flood(ctx context.Context, base string, connections chan<- io.Closer) floodResult {
	defer close(connections)
	r := floodResult{failed: map[string]int{}}
	var mu sync.Mutex
	var dialers sync.WaitGroup
	next := make(chan struct{}, c.Sessions)
	for range c.Sessions {
		next <- struct{}{}
	}
	close(next)
	for range floodDialers {
		dialers.Go(func() {
			for range next {
				connection, err := openFlooding(ctx, base, c.Timeout)
				if err == nil {
					connections <- connection
				}
				mu.Lock()
				r.add(err)
				mu.Unlock()
			}
		})
	}
	dialers.Wait()
	return r
}

// openFlooding opens a session over a connection of its own, and waits for its first event. A refusal is a
// *load.StatusError.
func openFlooding(ctx context.Context, base string, timeout time.Duration) (_ io.Closer, err error) {
	at, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "POST /v1/live HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
		at.Host, len(floodOpening), floodOpening)
	if err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // it is the session, which ends with the connection
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0: none
		return nil, &load.StatusError{Code: response.StatusCode, Status: response.Status, RetryAfter: time.Duration(seconds) * time.Second}
	}
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err == nil && !strings.Contains(line, `"progress"`) {
		return nil, &load.StatusError{Code: response.StatusCode, Status: strings.TrimSpace(line)}
	}
	return conn, err
}

// honestClients use the service as they should.
type honestClients struct {
	api      *assay.Client
	texts    []string
	want     []assay.Result // of the texts
	sessions []*honestSession
}

type honestSession struct {
	live *assay.Live
	text strings.Builder // so far
	next int             // text
}

// newHonestClients scores the texts, and opens the sessions.
func newHonestClients(ctx context.Context, base string, texts []string, n int) (*honestClients, error) {
	api, err := assay.New(base)
	if err != nil {
		return nil, err
	}
	h := &honestClients{api: api, texts: texts}
	for _, text := range texts {
		result, err := h.score(ctx, text)
		if err != nil {
			return nil, err
		}
		h.want = append(h.want, result)
	}
	for i := range n {
		live, err := api.Live(ctx, assay.LiveOptions{})
		if err != nil {
			return nil, err
		}
		h.sessions = append(h.sessions, &honestSession{live: live, next: i})
	}
	return h, nil
}

// score is the result for a text, without what differs between requests.
func (h *honestClients) score(ctx context.Context, text string) (assay.Result, error) {
	response, err := h.api.Score(ctx, assay.Texts(text), assay.Options{})
	if err != nil {
		return assay.Result{}, err
	}
	response.Results[0].ID = ""
	return response.Results[0], nil
}

// phase is what the honest clients experience in a part of the measurement.
type phase struct {
	right     int
	wrong     []error
	latencies []time.Duration
}

func (p *phase) sent() int { return p.right + len(p.wrong) }

func (p *phase) percentile(n int) float64 {
	return stats.Milliseconds(stats.Percentile(p.latencies, n))
}

// err is the first thing that was wrong.
func (p *phase) err() error {
	if len(p.wrong) > 0 {
		return fmt.Errorf("%d honest requests are wrong, such as: %w", len(p.wrong), p.wrong[0])
	}
	return nil
}

// during sends the requests of all clients while do runs.
func (h *honestClients) during(ctx context.Context, do func() error) (p phase) {
	ctx, stop := context.WithCancel(ctx)
	var mu sync.Mutex
	var clients sync.WaitGroup
	for _, s := range h.sessions {
		clients.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				err := h.request(ctx, s)
				mu.Lock()
				switch {
				case err == nil:
					p.right++
					p.latencies = append(p.latencies, time.Since(began))
				case ctx.Err() == nil:
					p.wrong = append(p.wrong, err)
				}
				mu.Unlock()
				_ = load.WaitUntil(ctx, began.Add(floodPause))
			}
		})
	}
	if err := do(); err != nil {
		p.wrong = append(p.wrong, err)
	}
	stop()
	clients.Wait()
	slices.Sort(p.latencies)
	return p
}

// request scores the next text, and feeds it to the session of the client.
func (h *honestClients) request(ctx context.Context, s *honestSession) error {
	n := s.next % len(h.texts)
	got, err := h.score(ctx, h.texts[n])
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, h.want[n]) {
		return fmt.Errorf("text %d: %+v during the flood, %+v before", n, got, h.want[n])
	}
	s.next++
	s.text.WriteString(h.texts[n] + "\n\n")
	return s.live.Send(h.texts[n] + "\n\n")
}

// finish closes the sessions, and compares their results with those of their texts.
func (h *honestClients) finish(ctx context.Context) (p phase) {
	for i, s := range h.sessions {
		got, err := s.live.Close()
		if err != nil {
			p.wrong = append(p.wrong, err)
			continue
		}
		got.ID = ""
		want, err := h.score(ctx, s.text.String())
		switch {
		case err != nil:
			p.wrong = append(p.wrong, err)
		case !reflect.DeepEqual(got, want):
			p.wrong = append(p.wrong, fmt.Errorf("session %d has another result than /v1/score", i))
		default:
			p.right++
		}
	}
	return p
}

func (h *honestClients) close() {
	for _, s := range h.sessions {
		s.live.Stop()
	}
	h.api.Close()
}
