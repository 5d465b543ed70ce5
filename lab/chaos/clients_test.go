package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/queue"
	"assay/queue/registry"
	"assay/rewardmodel"
	"assay/rewardmodel/retrain"
)

const (
	// requestTimeout is sent with each request: a promotion waits so long for NATS. It is longer than any pause.
	requestTimeout = 20 * time.Second
	// replyTimeout is how long a reply may take while the process that owes it lives.
	replyTimeout = time.Minute
)

// clients use the service until they finish.
type clients struct {
	ctx     context.Context
	stop    context.CancelFunc
	sys     system
	models  *models
	history *history
	http    *http.Client
	resends bool // send labels again: not where it would restore what damage of files has lost
	done    sync.WaitGroup

	mu        sync.Mutex
	ending    bool // no new work; what is not acknowledged is retried
	abandoned bool // what is not acknowledged never is
	conns     map[string]*nats.Conn
}

// startClients starts all clients of a schedule.
func startClients(ctx context.Context, s schedule, sys system, models *models, h *history) *clients {
	ctx, stop := context.WithCancel(ctx)
	c := &clients{ctx: ctx, stop: stop, sys: sys, models: models, history: h, conns: map[string]*nats.Conn{}, resends: !s.of.damage,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}, Timeout: replyTimeout}}
	start := func(n uint64, every time.Duration, act func(*rand.Rand)) {
		rng := rand.New(rand.NewPCG(s.seed, 100+n))
		c.done.Go(func() { c.every(every, func() { act(rng) }) })
	}
	start(1, 30*time.Millisecond, c.scoreHTTP)
	start(2, 60*time.Millisecond, c.scoreNATS)
	start(3, 80*time.Millisecond, c.live)
	for i := range uint64(2) {
		publisher := &publisher{clients: c, name: fmt.Sprint("p", i)}
		start(10+i, 10*time.Millisecond, publisher.publish)
		rater := &rater{clients: c, name: fmt.Sprint("rater", i)}
		start(20+i, 40*time.Millisecond, rater.act)
		client := int(i)
		start(30+i, 300*time.Millisecond, func(rng *rand.Rand) { c.operate(client, rng, s.of.training) })
	}
	if s.of.training {
		start(40, 2*time.Second, c.train)
	}
	return c
}

// every calls act at an interval until the clients end.
func (c *clients) every(interval time.Duration, act func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		if c.over() {
			return
		}
		act()
	}
}

func (c *clients) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

// finish waits until everything that clients began is acknowledged.
func (c *clients) finish() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	c.done.Wait()
	c.close()
}

// abandon ends all clients of a service that does not run again.
func (c *clients) abandon() {
	c.mu.Lock()
	c.abandoned = true
	c.mu.Unlock()
	c.close()
}

// unacknowledged records that an operation was repeated in vain.
func (c *clients) unacknowledged(format string, args ...any) {
	c.mu.Lock()
	abandoned := c.abandoned
	c.mu.Unlock()
	if !abandoned {
		c.history.violate(format, args...)
	}
}

func (c *clients) close() {
	c.stop()
	c.done.Wait()
	c.http.CloseIdleConnections()
	for _, nc := range c.conns {
		nc.Close()
	}
}

var errDown = errors.New("no process runs")

// call sends a request to a process. A process that lives must reply in time, with one of the documented statuses.
func (c *clients) call(rng *rand.Rand, method, path string, body []byte) (status int, header http.Header, reply []byte, err error) {
	at, ok := c.sys.pick(rng)
	if !ok {
		return 0, nil, nil, errDown
	}
	request, err := http.NewRequestWithContext(c.ctx, method, at.http+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Timeout", requestTimeout.String())
	began, changes := time.Now(), at.life.changes()
	response, err := c.http.Do(request)
	if err == nil {
		status, header = response.StatusCode, response.Header
		reply, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err != nil {
		if !at.life.over() && c.ctx.Err() == nil {
			c.history.violate("%s %s: no reply of a process that lives, after %v: %v", method, path, time.Since(began).Round(time.Millisecond), err)
		}
		return 0, nil, nil, err
	}
	c.history.count(fmt.Sprintf("HTTP %d", status), 1)
	switch status {
	case http.StatusOK, http.StatusAccepted, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusConflict:
	case http.StatusNotFound: // a version that was registered
		c.history.lost(loss{what: "version " + path, streams: []string{registry.StreamState, registry.StreamModels}, about: aboutVersions},
			"%s: %.300s", method, reply)
	default:
		if !at.life.failedSince(changes) { // a process without memory may fail in any way
			c.history.violate("%s %s: status %d: %.300s", method, path, status, reply)
		}
	}
	return status, header, reply, nil
}

// sample returns some of the texts.
func (c *clients) sample(rng *rand.Rand, n int) (texts []string) {
	for range n {
		texts = append(texts, c.models.texts[rng.IntN(len(c.models.texts))])
	}
	return texts
}

func (c *clients) scoreHTTP(rng *rand.Rand) {
	texts := c.sample(rng, 1+rng.IntN(4))
	body, err := scoreRequest("", texts)
	if err != nil {
		c.history.violate("%v", err)
		return
	}
	if status, _, reply, err := c.call(rng, http.MethodPost, "/v1/score", body); err == nil && status == http.StatusOK {
		c.results("HTTP", texts, reply)
	}
}

// results records the rewards in a reply.
func (c *clients) results(by string, texts []string, reply []byte) {
	var got rewardmodel.ScoreResponse
	if err := json.Unmarshal(reply, &got); err != nil || len(got.Results) != len(texts) {
		c.history.violate("%s: %d results for %d responses (%v): %.300s", by, len(got.Results), len(texts), err, reply)
		return
	}
	for i, r := range got.Results {
		c.history.scored(by, got.Model, texts[i], r.Reward)
	}
}

// connect returns a connection to the NATS server of a process.
func (c *clients) connect(at address) (*nats.Conn, error) {
	c.mu.Lock()
	nc := c.conns[at.nats]
	c.mu.Unlock()
	if nc != nil && !nc.IsClosed() {
		return nc, nil
	}
	options := []nats.Option{nats.Timeout(2 * time.Second), nats.PingInterval(2 * time.Second), nats.ReconnectWait(50 * time.Millisecond)}
	if strings.Contains(at.nats, ",") { // a cluster keeps its addresses
		options = append(options, nats.MaxReconnects(-1))
	} else {
		options = append(options, nats.NoReconnect())
	}
	nc, err := nats.Connect(at.nats, options...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.conns[at.nats]; other != nil && !other.IsClosed() {
		nc.Close()
		return other, nil
	}
	c.conns[at.nats] = nc
	return nc, nil
}

func (c *clients) scoreNATS(rng *rand.Rand) {
	at, ok := c.sys.pick(rng)
	if !ok {
		return
	}
	nc, err := c.connect(at)
	if err != nil {
		return
	}
	texts := c.sample(rng, 1+rng.IntN(2))
	body, err := scoreRequest("", texts)
	if err != nil {
		c.history.violate("%v", err)
		return
	}
	changes := at.life.changes()
	reply, err := nc.Request(queue.SubjectScore, body, 5*time.Second)
	switch {
	case err != nil:
		c.history.count("NATS: no reply", 1)
	case reply.Header.Get("Nats-Service-Error-Code") == "":
		c.results("NATS", texts, reply.Data)
	case reply.Header.Get("Nats-Service-Error-Code") != "503" && !at.life.failedSince(changes): // a process without memory may fail in any way
		c.history.violate("NATS: %s %.300s", reply.Header.Get("Nats-Service-Error-Code"), reply.Data)
	}
}

// live scores a text that arrives in pieces.
func (c *clients) live(rng *rand.Rand) {
	text := c.sample(rng, 1)[0]
	body := bytes.NewBufferString(`{"open":{"id":"live"}}` + "\n")
	for _, piece := range strings.SplitAfter(text, " ") {
		fmt.Fprintf(body, "{\"text\":%q}\n", piece)
	}
	body.WriteString(`{"close":{}}` + "\n")
	at, ok := c.sys.pick(rng)
	if !ok {
		return
	}
	request, err := http.NewRequestWithContext(c.ctx, http.MethodPost, at.http+"/v1/live", body)
	if err != nil {
		c.history.violate("%v", err)
		return
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := c.http.Do(request)
	var reply []byte
	if err == nil {
		reply, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err != nil {
		if !at.life.over() && c.ctx.Err() == nil {
			c.history.violate("live session: %v", err)
		}
		return
	}
	lines := bytes.Split(bytes.TrimSpace(reply), []byte("\n"))
	var last struct {
		Result *rewardmodel.Result   `json:"result"`
		Model  rewardmodel.ModelInfo `json:"model"`
	}
	if response.StatusCode == http.StatusOK && json.Unmarshal(lines[len(lines)-1], &last) == nil && last.Result != nil {
		c.history.scored("live", last.Model, text, last.Result.Reward)
	}
}

// until repeats an operation until it succeeds or the schedule ends.
func (c *clients) until(operation func() error) error {
	for {
		err := operation()
		if err == nil {
			return nil
		}
		select {
		case <-c.ctx.Done():
			return fmt.Errorf("%w; last: %w", c.ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// publisher streams responses like a program that must not lose one.
type publisher struct {
	clients *clients
	name    string
	n       int
	sent    []*nats.Msg // the last ones
}

// maxAgain is how many of its messages a client may send again.
const maxAgain = 200

// publish publishes a response until it is acknowledged, and some responses again, out of order.
func (p *publisher) publish(rng *rand.Rand) {
	if len(p.sent) > 0 && rng.IntN(10) == 0 {
		msg := p.sent[rng.IntN(len(p.sent))]
		_ = p.clients.until(func() error { return p.send(rng, msg) })
		p.clients.history.count("responses published again", 1)
		return
	}
	text := p.clients.sample(rng, 1)[0]
	id := fmt.Sprintf("%s-%d", p.name, p.n)
	p.n++
	body, err := json.Marshal(item{id, text})
	if err != nil {
		p.clients.history.violate("%v", err)
		return
	}
	h := p.clients.history
	h.mu.Lock()
	h.attempted[id] = text
	h.mu.Unlock()
	msg := &nats.Msg{Subject: queue.SubjectResponses + ".chaos." + p.name, Data: body, Header: nats.Header{jetstream.MsgIDHeader: {id}}}
	p.sent = append(p.sent[max(0, len(p.sent)-maxAgain):], msg)
	if err := p.clients.until(func() error { return p.send(rng, msg) }); err != nil {
		p.clients.unacknowledged("response %s was never acknowledged: %v", id, err)
		return
	}
	h.count("responses published", 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.published[id] = text
}

func (p *publisher) send(rng *rand.Rand, msg *nats.Msg) error {
	at, ok := p.clients.sys.pick(rng)
	if !ok {
		return errDown
	}
	nc, err := p.clients.connect(at)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.clients.ctx, 3*time.Second)
	defer cancel()
	_, err = js.PublishMsg(ctx, msg)
	return err
}

// operate promotes, rolls back or reads. While the service trains, others change the current version, so it only reads.
func (c *clients) operate(client int, rng *rand.Rand, readOnly bool) {
	call := c.history.now()
	choice := rng.IntN(6)
	if choice < 3 || readOnly {
		version, ok := c.current(rng)
		if !readOnly {
			c.history.operate(client, registryInput{kind: "read"}, call, registryOutput{known: ok, version: version})
		}
		return
	}
	in, path := registryInput{kind: "rollback"}, "/v1/models/rollback"
	if choice < 5 {
		in = registryInput{kind: "promote", version: versions[rng.IntN(len(versions))]}
		path = "/v1/models/" + in.version + "/promote"
	}
	status, _, reply, err := c.call(rng, http.MethodPost, path, []byte("{}"))
	if errors.Is(err, errDown) {
		return
	}
	var current retrain.Current
	out := registryOutput{}
	if err == nil && status == http.StatusOK && json.Unmarshal(reply, &current) == nil {
		out = registryOutput{known: true, version: current.Version, previous: strings.Join(current.Previous, " ")}
	}
	c.history.operate(client, in, call, out)
}

// current reads the current version. One that may be out of date says so with its age.
func (c *clients) current(rng *rand.Rand) (version string, ok bool) {
	status, header, reply, err := c.call(rng, http.MethodGet, "/v1/models", nil)
	if err != nil || status != http.StatusOK || header.Get("Age") != "" {
		return "", false
	}
	var list struct {
		Data []struct {
			Version string `json:"version"`
			Current bool   `json:"current"`
		} `json:"data"`
	}
	if err := json.Unmarshal(reply, &list); err != nil {
		c.history.violate("GET /v1/models: %v: %.300s", err, reply)
		return "", false
	}
	for _, m := range list.Data {
		if m.Current {
			return m.Version, true
		}
	}
	return "", false
}

// train asks for a training run.
func (c *clients) train(rng *rand.Rand) {
	_, _, _, _ = c.call(rng, http.MethodPost, "/v1/training", []byte(`{"reason":"chaos"}`)) // 409 while it cannot
}
