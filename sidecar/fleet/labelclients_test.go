package fleet_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay/queue/labels"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/sidecar/processtest"
)

// endpoint is the address of a service that is killed and restarted, each time at another address.
type endpoint struct {
	mu   sync.Mutex
	url  string // "" while it is down
	life int
}

// up reports that the service is ready at url; down, that it is about to be killed.
func (p *endpoint) up(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.url, p.life = url, p.life+1
}

func (p *endpoint) down() { p.up("") }

func (p *endpoint) now() (string, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url, p.life
}

// reply is the answer to a request.
type reply struct {
	code int
	body []byte
	err  error // of the connection
	// excused is set if the service was down during a part of the request.
	excused bool
}

// call sends a request; sent is false while the service is down.
func (p *endpoint) call(client *http.Client, method, path, body string) (r reply, sent bool) {
	url, life := p.now()
	if url == "" {
		return reply{}, false
	}
	request, err := http.NewRequest(method, url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return reply{err: err}, true
	}
	request.Header.Set("Accept", "application/json")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err == nil {
		r.code = response.StatusCode
		r.body, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	_, then := p.now()
	r.err, r.excused = err, then != life
	return r, true
}

// clients run in the background of a test until it stops them.
type clients struct {
	t    *testing.T
	http *http.Client
	stop chan struct{}
	done sync.WaitGroup
}

func newClients(t *testing.T) *clients {
	c := &clients{t: t, http: &http.Client{Transport: &http.Transport{}, Timeout: processtest.Timeout}, stop: make(chan struct{})}
	t.Cleanup(c.end)
	return c
}

// end stops all clients after they have received their responses.
func (c *clients) end() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.done.Wait()
	c.http.CloseIdleConnections()
}

// every calls f at an interval on another goroutine until end.
func (c *clients) every(interval time.Duration, f func()) {
	c.done.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-c.t.Context().Done(): // the test has failed, and its services are about to stop
				return
			case <-tick.C:
				f()
			}
		}
	})
}

// scoring requests rewards continuously and checks each response.
type scoring struct {
	mu       sync.Mutex
	versions map[string]int // number of responses of each
	answers  int
}

func (c *clients) score(at *endpoint) *scoring {
	s := &scoring{versions: map[string]int{}}
	n := 0
	c.every(20*time.Millisecond, func() {
		n++
		r, sent := at.call(c.http, http.MethodPost, "/v1/score", fmt.Sprintf(`{"responses":[{"id":"a","response":"Score %d. You fool."},{"id":"b","response":"Once more."}]}`, n))
		if !sent || r.excused {
			return
		}
		var answer rewardmodel.ScoreResponse
		if assert.NoError(c.t, r.err) && assert.Equal(c.t, http.StatusOK, r.code, string(r.body)) &&
			assert.NoError(c.t, json.Unmarshal(r.body, &answer)) && assert.Len(c.t, answer.Results, 2) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.versions[answer.Model.Version]++
			s.answers++
		}
	})
	return s
}

func (s *scoring) answered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers
}

// served returns the number of responses of each version so far.
func (s *scoring) served() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.versions)
}

// rater sends labels like a client that must not lose one: it retries a batch until it is acknowledged.
type rater struct {
	clients   *clients
	endpoints []*endpoint
	rng       *rand.Rand
	ids       int
	retry503  bool // while the service cannot store feedback

	mu      sync.Mutex
	labels  map[[2]string]bag.Label // acknowledged, by id and rater
	batches int                     // acknowledged
}

// labeledItem is an item of a batch.
type labeledItem struct {
	ID       string    `json:"id"`
	Rater    string    `json:"rater"`
	Label    bag.Label `json:"label"`
	Response string    `json:"response"`
}

// newRater returns a rater that sends each batch to the first endpoint that accepts it.
func newRater(c *clients, seed uint64, endpoints ...*endpoint) *rater {
	return &rater{clients: c, endpoints: endpoints, rng: rand.New(rand.NewPCG(seed, 0)), labels: map[[2]string]bag.Label{}}
}

// item returns response number i with its label. Responses with odd numbers contain an insult.
func (r *rater) item(i int) labeledItem {
	label, second := bag.Compliant, "Have a good trip."
	if i%2 == 1 {
		label, second = bag.Violation, "You fool."
	}
	return labeledItem{ID: fmt.Sprint("r", i), Rater: "ann", Label: label, Response: fmt.Sprintf("Train %d leaves at noon. %s", i, second)}
}

// newItems returns a batch of new responses.
func (r *rater) newItems(n int) (items []labeledItem) {
	for range n {
		items = append(items, r.item(r.ids))
		r.ids++
	}
	return items
}

// mixed returns a batch of new responses, a duplicate of an earlier item, an agreeing label of another rater for an
// earlier response, and sometimes a correction.
func (r *rater) mixed() []labeledItem {
	items := r.newItems(6)
	again, second := r.item(r.rng.IntN(r.ids)), r.item(r.rng.IntN(r.ids))
	if label, ok := r.acknowledged(again); ok {
		again.Label = label
	}
	if label, ok := r.acknowledged(second); ok {
		second.Label = label
	}
	second.Rater = "bob"
	items = append(items, again, second)
	if changed := r.item(r.rng.IntN(r.ids)); r.rng.IntN(10) == 0 {
		changed.Label = bag.Violation
		items = append(items, changed)
	}
	return items
}

func (r *rater) acknowledged(s labeledItem) (bag.Label, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	label, ok := r.labels[[2]string{s.ID, s.Rater}]
	return label, ok
}

// sendMixed sends mixed batches until the clients end.
func (r *rater) sendMixed(interval time.Duration) {
	r.clients.every(interval, func() { r.send(r.mixed()) })
}

// send returns when a batch is acknowledged.
func (r *rater) send(items []labeledItem) {
	body, err := json.Marshal(map[string]any{"items": items})
	if !assert.NoError(r.clients.t, err) {
		return
	}
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for attempt := 0; ; attempt++ {
		at := r.endpoints[attempt%len(r.endpoints)]
		if got, sent := at.call(r.clients.http, http.MethodPost, "/v1/feedback", string(body)); sent {
			if got.err == nil && got.code == http.StatusAccepted {
				r.acknowledge(items, got.body, attempt == 0)
				return
			}
			if !got.excused && !(r.retry503 && got.code == http.StatusServiceUnavailable) {
				assert.Fail(r.clients.t, "feedback was not accepted", "%d %s %v", got.code, got.body, got.err)
				return
			}
		}
		select {
		case <-r.clients.t.Context().Done(): // the test has failed
			return
		case <-pause.C:
		}
	}
}

// acknowledge records what a receipt confirms, and checks its counts.
func (r *rater) acknowledge(items []labeledItem, receipt []byte, first bool) {
	t := r.clients.t
	var got feedback.Receipt
	if !assert.NoError(t, json.Unmarshal(receipt, &got)) || !assert.Empty(t, got.Rejected) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := 0
	for _, s := range items {
		key := [2]string{s.ID, s.Rater}
		if label, ok := r.labels[key]; !ok || label != s.Label {
			changes++
		}
		r.labels[key] = s.Label
	}
	r.batches++
	assert.Equal(t, len(items), got.Accepted+got.Duplicates)
	if first {
		assert.Equal(t, changes, got.Accepted, "of a batch that was not sent before")
	}
}

func (r *rater) acknowledgedBatches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batches
}

// known returns the number of acknowledged labels.
func (r *rater) known() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.labels)
}

// requireKept compares the acknowledged labels with the count of a service and with the stream.
func (r *rater) requireKept(t *testing.T, at *endpoint, js jetstream.JetStream) {
	t.Helper()
	require.Eventually(t, func() bool {
		got, _ := at.call(r.clients.http, http.MethodGet, "/v1/feedback", "")
		var stats feedback.Stats
		return got.code == http.StatusOK && json.Unmarshal(got.body, &stats) == nil && stats.Records == r.known()
	}, processtest.Timeout, 50*time.Millisecond, "labels that the service counts")
	consumer, err := js.OrderedConsumer(t.Context(), labels.StreamFeedback, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{labels.SubjectFeedback + ".item.>"},
	})
	require.NoError(t, err)
	messages, err := consumer.Messages()
	require.NoError(t, err)
	defer messages.Stop()
	kept := map[[2]string]bag.Label{}
	for left := uint64(1); left > 0; {
		msg, err := messages.Next(jetstream.NextMaxWait(processtest.Timeout))
		require.NoError(t, err)
		meta, err := msg.Metadata()
		require.NoError(t, err)
		record, err := feedback.ParseRecord(msg.Data())
		require.NoError(t, err)
		key := [2]string{record.Bag.ID, record.Bag.Rater}
		require.NotContains(t, kept, key)
		kept[key], left = record.Bag.Label, meta.NumPending
	}
	require.Equal(t, r.labels, kept)
}
