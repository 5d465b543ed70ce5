package fleet_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
	"assay/rewardmodel/retrain"
	"assay/sidecar/localmodel"
	"assay/sidecar/processtest"
)

// steadyClient scores continuously over HTTP and NATS, like an RLHF run. Every request must succeed with one version, and
// a version must always return the same score for a response.
type steadyClient struct {
	stop func()
	done sync.WaitGroup

	mu       sync.Mutex
	requests int
	slowest  time.Duration
	served   map[string][]string           // the sequence of serving versions, by transport
	scores   map[string]map[string]float64 // violation by version and response
	faults   []string
}

// startSteadyClient asks for a few of the texts every so often until the test ends.
func startSteadyClient(t *testing.T, p *processtest.Process, nc *nats.Conn, texts []string, every time.Duration, tolerance float64) *steadyClient {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &steadyClient{stop: cancel, served: map[string][]string{}, scores: map[string]map[string]float64{}}
	run := func(transport string, ask func(body []byte) ([]byte, error)) {
		s.done.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for i := 0; ; i++ {
				s.ask(transport, texts, i, tolerance, ask)
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	run("HTTP", func(body []byte) ([]byte, error) {
		answer, err := http.Post(p.Ready.HTTP+"/v1/score", "application/json", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		var out bytes.Buffer
		if _, err := out.ReadFrom(answer.Body); err != nil {
			return nil, err
		}
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%d: %s", answer.StatusCode, out.String())
		}
		return out.Bytes(), nil
	})
	run("NATS", func(body []byte) ([]byte, error) {
		reply, err := nc.Request(queue.SubjectScore, body, processtest.Timeout)
		if err != nil {
			return nil, err
		}
		if code := reply.Header.Get("Nats-Service-Error-Code"); code != "" {
			return nil, fmt.Errorf("%s: %s", code, reply.Header.Get("Nats-Service-Error"))
		}
		return reply.Data, nil
	})
	t.Cleanup(func() { s.end() })
	return s
}

func (s *steadyClient) end() {
	s.stop()
	s.done.Wait()
}

// ask scores three of the texts and a new one.
func (s *steadyClient) ask(transport string, texts []string, i int, tolerance float64, ask func([]byte) ([]byte, error)) {
	var items []rewardmodel.Item
	for k := range 3 {
		text := texts[(3*i+k)%len(texts)]
		items = append(items, rewardmodel.Item{ID: fmt.Sprint("steady-", (3*i+k)%len(texts)), Response: &text})
	}
	fresh := fmt.Sprintf("%s %s %s %d.", processtest.Invented(i%processtest.InventedWords), processtest.Invented(i/7%processtest.InventedWords), transport, i)
	items = append(items, rewardmodel.Item{ID: fmt.Sprint("fresh-", transport, i), Response: &fresh})
	body, err := requestBody("", items)
	if err != nil {
		s.fault("%v", err)
		return
	}
	began := time.Now()
	data, err := ask(body)
	took := time.Since(began)
	var answer rewardmodel.ScoreResponse
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err == nil && (answer.Model.Version == "" || len(answer.Results) != len(items)) {
		err = fmt.Errorf("an answer of version %q with %d results", answer.Model.Version, len(answer.Results))
	}
	if err != nil {
		s.fault("request %d over %s: %v", i, transport, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	s.slowest = max(s.slowest, took)
	version := answer.Model.Version
	if seen := s.served[transport]; len(seen) == 0 || seen[len(seen)-1] != version {
		s.served[transport] = append(seen, version)
	}
	if s.scores[version] == nil {
		s.scores[version] = map[string]float64{}
	}
	for k, r := range answer.Results[:3] {
		before, known := s.scores[version][*items[k].Response]
		if !known {
			s.scores[version][*items[k].Response] = r.Violation
		} else if math.Abs(before-r.Violation) > tolerance {
			s.faults = append(s.faults, fmt.Sprintf("version %s says %v of a response of which it said %v", version, r.Violation, before))
		}
	}
}

func (s *steadyClient) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// awaitServed waits until a version has replied over both HTTP and NATS.
func (s *steadyClient) awaitServed(t *testing.T, version string) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, served := range s.served {
			if served[len(served)-1] != version {
				return false
			}
		}
		return len(s.served) == 2
	}, processtest.Timeout, 10*time.Millisecond, "%s does not answer", version)
}

// require fails the test if a request failed or the versions served in another order.
func (s *steadyClient) require(t *testing.T, versions ...string) {
	t.Helper()
	s.end()
	require.Empty(t, s.faults)
	require.Greater(t, s.requests, 20)
	for transport, served := range s.served {
		require.Equal(t, versions, served, transport)
	}
	t.Logf("%d requests during the training runs, the slowest took %v", s.requests, s.slowest.Round(time.Millisecond))
}

func requestBody(model string, items []rewardmodel.Item) ([]byte, error) {
	type item struct {
		ID        string   `json:"id,omitzero"`
		Response  *string  `json:"response,omitzero"`
		Instances []string `json:"instances,omitzero"`
	}
	body := struct {
		Model     string `json:"model,omitzero"`
		Responses []item `json:"responses"`
	}{Model: model}
	for _, it := range items {
		body.Responses = append(body.Responses, item{it.ID, it.Response, it.Instances})
	}
	return json.Marshal(body)
}

// score scores bags; model "" pins no version.
func score(t *testing.T, p *processtest.Process, model string, bags []bag.Bag) rewardmodel.ScoreResponse {
	t.Helper()
	var items []rewardmodel.Item
	for _, b := range bags {
		items = append(items, localmodel.ItemOf(b))
	}
	body, err := requestBody(model, items)
	require.NoError(t, err)
	return processtest.Post(t, p.Ready.HTTP, string(body))
}

// servedAUROC returns the bag AUROC of the serving version.
func servedAUROC(t *testing.T, p *processtest.Process, bags []bag.Bag) float64 {
	t.Helper()
	var scores []float64
	var violation []bool
	for part := range slices.Chunk(bags, 100) {
		for i, r := range score(t, p, "", part).Results {
			scores = append(scores, r.Violation)
			violation = append(violation, part[i].Label == bag.Violation)
		}
	}
	return eval.AUROC(scores, violation)
}

// events follows the events of a service until the test ends.
type events struct {
	mu   sync.Mutex
	all  []retrain.Event
	fail error
}

func followEvents(t *testing.T, p *processtest.Process) *events {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Ready.HTTP+"/v1/events", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	e := &events{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.read(req); err != nil && ctx.Err() == nil {
			e.mu.Lock()
			e.fail = err
			e.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return e
}

// read receives events until the stream ends.
func (e *events) read(req *http.Request) error {
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var one retrain.Event
		if err := json.Unmarshal([]byte(data), &one); err != nil {
			return err
		}
		e.mu.Lock()
		e.all = append(e.all, one)
		e.mu.Unlock()
	}
	return lines.Err()
}

// of returns the events of the kinds so far.
func (e *events) of(kinds ...retrain.EventKind) []retrain.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []retrain.Event
	for _, one := range e.all {
		if slices.Contains(kinds, one.Kind) {
			out = append(out, one)
		}
	}
	return out
}

// wait waits for the nth event (from 1) of the kinds and returns it.
func (e *events) wait(t *testing.T, within time.Duration, nth int, kinds ...retrain.EventKind) retrain.Event {
	t.Helper()
	broken := func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.fail
	}
	require.Eventually(t, func() bool { return broken() != nil || len(e.of(kinds...)) >= nth }, within, 50*time.Millisecond,
		"event %d of %v is missing", nth, kinds)
	require.NoError(t, broken())
	return e.of(kinds...)[nth-1]
}

// String lists the events.
func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, one := range e.all {
		fmt.Fprintf(&b, "\n%s %s %s: %s", one.Time.Format(time.TimeOnly), one.Kind, one.Version, one.Reason)
	}
	return b.String()
}
