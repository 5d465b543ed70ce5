package fleet_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/queue/queuetest"
	"assay/rewardmodel"
	"assay/sidecar/processtest"
)

// faultyReplica is a replica with injected faults, and what a client observes that requests rewards over HTTP
// continuously.
type faultyReplica struct {
	t       *testing.T
	n       int
	fleet   *promotions
	gate    *queuetest.Gate
	at      endpoint
	process *processtest.Process
	data    string
	model   string
	flags   []string
	counted map[string]float64 // metrics of its previous processes

	mu        sync.Mutex
	answers   map[int]int // by status
	last      time.Time   // of the last reward, or of the first start
	outage    time.Duration
	connected time.Time // start of the current period of readiness; zero: not ready
	cut       bool      // disconnected from NATS, whatever it reports
	isolated  bool      // connected to a server that is isolated from the others
	stale     time.Duration
	faults    []string
}

// promotions is the current version and the time of its promotion.
type promotions struct {
	mu      sync.Mutex
	version string
	since   time.Time
	next    string // version that is being promoted
}

func (p *promotions) now() (string, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.since
}

// begin announces a promotion, which a replica may have loaded before its caller gets the reply.
func (p *promotions) begin(version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = version
}

func (p *promotions) set(version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version, p.since, p.next = version, time.Now(), ""
}

// isNewest reports whether a version is current or being promoted.
func (p *promotions) isNewest(version string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return version == p.version || version == p.next
}

// staleLimit is how long a connected replica may serve the previous version.
const staleLimit = 5 * time.Second

// up starts the replica and waits until it is ready.
func (r *faultyReplica) up(binary string) {
	r.t.Helper()
	args := append([]string{"--nats-url", r.gate.URL(), "--log-format", "json"}, r.flags...)
	r.process = processtest.StartBinary(r.t, binary, processtest.Serving(r.model, r.data, args...)...).Await(r.t)
	if r.process.Ready.HTTP == "" {
		r.t.Fatalf("replica %d did not become ready:\n%s", r.n, r.process.Output())
	}
	r.at.up(r.process.Ready.HTTP)
}

// kill is kill -9.
func (r *faultyReplica) kill() {
	r.t.Helper()
	r.count()
	r.down()
	r.process.Kill()
}

func (r *faultyReplica) down() {
	r.at.down()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected = time.Time{}
}

// drain stops the replica as a rollout does, and returns the duration. Requests continue until it rejects them.
func (r *faultyReplica) drain() time.Duration {
	r.t.Helper()
	r.count()
	r.mu.Lock()
	r.cut = true
	r.mu.Unlock()
	began := time.Now()
	r.process.Signal(r.t)
	code := r.process.Wait(r.t)
	took := time.Since(began)
	r.down()
	require.Zero(r.t, code, "replica %d:\n%s", r.n, r.process.Output())
	r.heal()
	return took
}

// part replaces the network between the replica and NATS; heal restores it.
func (r *faultyReplica) part(network queuetest.Network) {
	r.mu.Lock()
	r.cut, r.connected = true, time.Time{}
	r.mu.Unlock()
	r.gate.Set(network)
}

func (r *faultyReplica) heal() {
	r.gate.Set(queuetest.Passing)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
}

// watch requests rewards from the replica, and its state of readiness with the streams.
func (r *faultyReplica) watch(c *clients) {
	n := 0
	c.every(50*time.Millisecond, func() {
		n++
		_, life := r.at.now()
		version, since := r.fleet.now()
		began := time.Now()
		got, sent := r.at.call(c.http, http.MethodPost, "/v1/score", fmt.Sprintf(`{"responses":[{"id":"a","response":"Replica %d, request %d."}]}`, r.n, n))
		if sent {
			r.answered(got, began, version, since, life)
		}
	})
	c.every(200*time.Millisecond, func() {
		got, sent := r.at.call(c.http, http.MethodGet, "/readyz?streams=1", "")
		ready := sent && got.err == nil && got.code == http.StatusOK
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case !ready || r.cut || r.isolated || got.excused:
			r.connected = time.Time{}
		case r.connected.IsZero():
			r.connected = time.Now()
		}
	})
}

func (r *faultyReplica) answered(got reply, began time.Time, version string, since time.Time, life int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if got.err != nil {
		if !got.excused && !r.cut { // it was up and yet did not reply
			r.faults = append(r.faults, got.err.Error())
		}
		return
	}
	r.answers[got.code]++
	switch got.code {
	case http.StatusOK:
	case http.StatusServiceUnavailable: // only while it starts or stops
		if !r.cut && !got.excused {
			r.faults = append(r.faults, fmt.Sprintf("503 in life %d: %s", life, got.body))
		}
		return
	default:
		r.faults = append(r.faults, fmt.Sprintf("%d: %s", got.code, got.body))
		return
	}
	var answer rewardmodel.ScoreResponse
	if err := json.Unmarshal(got.body, &answer); err != nil || len(answer.Results) != 1 || answer.Results[0].ID != "a" {
		r.faults = append(r.faults, fmt.Sprintf("%s: %v", got.body, err))
		return
	}
	now := time.Now()
	if !r.last.IsZero() {
		r.outage = max(r.outage, now.Sub(r.last))
	}
	r.last = now
	if answer.Model.Version == version || r.fleet.isNewest(answer.Model.Version) || r.connected.IsZero() {
		return
	}
	if r.connected.After(since) {
		since = r.connected
	}
	if age := began.Sub(since); age > 0 {
		if r.stale = max(r.stale, age); age > staleLimit {
			r.faults = append(r.faults, fmt.Sprintf("%s %v after %s became current, until %s", answer.Model.Version, age, version, began.Format(time.TimeOnly)))
		}
	}
}

// isReady waits until the replica reports that its streams are ready, or that they are not.
func (r *faultyReplica) isReady(want bool) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		status, _ := processtest.Get(r.t, r.process.Ready.HTTP+"/readyz?streams=1")
		return (status == http.StatusOK) == want
	}, processtest.Timeout, 50*time.Millisecond, "replica %d: the streams should be ready: %v", r.n, want)
}

// count adds the metrics of the process, which is about to end.
func (r *faultyReplica) count() {
	r.t.Helper()
	_, text := processtest.Get(r.t, r.process.Ready.HTTP+"/metrics")
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !strings.HasPrefix(name, "assay_nats_") {
			continue
		}
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			r.counted[name] += f
		}
	}
}

// anotherBuild returns another binary: that of ASSAY_OLD_BIN, or else a copy of this one, which tests the rollout but not
// the version skew.
func anotherBuild() (path string, real bool) {
	if path := os.Getenv("ASSAY_OLD_BIN"); path != "" {
		return path, true
	}
	return os.Args[0], false
}
