package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/queue"
	"assay/queue/registry"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
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
	began := time.Now()
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
		if !at.life.over() { // a process without memory may fail in any way
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
	reply, err := nc.Request(queue.SubjectScore, body, 5*time.Second)
	switch {
	case err != nil:
		c.history.count("NATS: no reply", 1)
	case reply.Header.Get("Nats-Service-Error-Code") == "":
		c.results("NATS", texts, reply.Data)
	case reply.Header.Get("Nats-Service-Error-Code") != "503" && !at.life.over(): // a process without memory may fail in any way
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

// rater sends, corrects, withdraws and erases labels of its own responses. It repeats each request until it is
// acknowledged, so what is in force is known.
type rater struct {
	clients *clients
	name    string
	ids     []string
	n       int
	sent    []batch // the last ones
}

// batch is an acknowledged request with labels.
type batch struct {
	items []labeledItem
	body  []byte
}

// act sends one request.
func (r *rater) act(rng *rand.Rand) {
	switch {
	case len(r.ids) > 5 && rng.IntN(8) == 0:
		r.withdraw(rng)
	case len(r.ids) > 20 && rng.IntN(40) == 0:
		r.erase(rng)
	case len(r.sent) > 0 && r.clients.resends && rng.IntN(12) == 0:
		r.again(rng)
	default:
		r.label(rng)
	}
}

// labeledItem is an item of a batch.
type labeledItem struct {
	ID       string    `json:"id"`
	Rater    string    `json:"rater"`
	Label    bag.Label `json:"label"`
	Response string    `json:"response"`
	Time     time.Time `json:"time"`
}

// label sends new labels, corrections, and second raters.
func (r *rater) label(rng *rand.Rand) {
	var items []labeledItem
	known := map[labelKey]bool{}
	for range 1 + rng.IntN(20) {
		id := fmt.Sprintf("%s-%d", r.name, r.n)
		if len(r.ids) > 0 && rng.IntN(4) == 0 {
			id = r.ids[rng.IntN(len(r.ids))]
		} else {
			r.ids = append(r.ids, id)
			r.n++
		}
		item := labeledItem{ID: id, Rater: r.name + []string{"", "-second"}[rng.IntN(2)], Label: bag.Compliant, Response: textOf(id), Time: time.Now()}
		if rng.IntN(2) == 0 {
			item.Label = bag.Violation
		}
		if key := (labelKey{id, item.Rater}); !known[key] {
			known[key] = true
			items = append(items, item)
		}
	}
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		r.clients.history.violate("%v", err)
		return
	}
	var receipt feedback.Receipt
	if err := r.request(rng, http.MethodPost, "/v1/feedback", body, http.StatusAccepted, &receipt); err != nil {
		r.clients.unacknowledged("labels were never acknowledged: %v", err)
		return
	}
	if len(receipt.Rejected) > 0 || receipt.Accepted+receipt.Duplicates != len(items) {
		r.clients.history.violate("%d labels: receipt %+v", len(items), receipt)
		return
	}
	for _, item := range items {
		r.clients.history.labeled(labelKey{item.ID, item.Rater}, labelState{item.Label, item.Response})
	}
	r.sent = append(r.sent[max(0, len(r.sent)-maxAgain):], batch{items, body})
	r.clients.history.count("labels acknowledged", len(items))
}

// again sends earlier labels again, as a delayed copy of their request: none of them may count, whatever replaced them. One
// of an id that was erased may be accepted for a moment, and is then removed.
func (r *rater) again(rng *rand.Rand) {
	of := r.sent[rng.IntN(len(r.sent))]
	var receipt feedback.Receipt
	if err := r.request(rng, http.MethodPost, "/v1/feedback", of.body, http.StatusAccepted, &receipt); err != nil {
		r.clients.unacknowledged("labels that were sent again were never acknowledged: %v", err)
		return
	}
	r.clients.history.count("labels sent again", len(of.items))
	erased := 0
	for _, item := range of.items {
		if !slices.Contains(r.ids, item.ID) {
			erased++
		}
	}
	if duplicates := len(of.items) - erased; receipt.Duplicates < duplicates {
		r.clients.history.lost(lostLabel(labelKey{of.items[0].ID, of.items[0].Rater}),
			"%d of its request were sent again, %d of them erased, and the receipt is %+v", len(of.items), erased, receipt)
	}
}

// textOf is the response with an id.
func textOf(id string) string { return "The response " + id + " is about trains. Have a good trip." }

// pick removes one of the ids, which is not used again.
func (r *rater) pick(rng *rand.Rand) string {
	i := rng.IntN(len(r.ids))
	id := r.ids[i]
	r.ids[i] = r.ids[len(r.ids)-1]
	r.ids = r.ids[:len(r.ids)-1]
	return id
}

func (r *rater) withdraw(rng *rand.Rand) {
	id := r.ids[rng.IntN(len(r.ids))]
	key, attempts := labelKey{id, r.name}, 0
	var found struct {
		Records int `json:"records"`
	}
	err := r.clients.until(func() error {
		attempts++
		return r.try(rng, http.MethodDelete, "/v1/feedback/"+id+"/labels?rater="+r.name, nil, http.StatusOK, &found)
	})
	if err != nil {
		r.clients.unacknowledged("withdrawal of %s was never acknowledged: %v", id, err)
		return
	}
	// An earlier attempt without a reply may have withdrawn it.
	if state, since := r.clients.history.label(key); found.Records == 0 && attempts == 1 && state.label != "" {
		r.clients.history.lost(lostLabel(key), "its withdrawal found none; it was acknowledged at %v", since)
	}
	r.clients.history.labeled(key, labelState{})
	r.clients.history.count("labels withdrawn", 1)
}

func (r *rater) erase(rng *rand.Rand) {
	id := r.pick(rng)
	if err := r.request(rng, http.MethodDelete, "/v1/feedback/"+id, nil, http.StatusOK, nil); err != nil {
		r.clients.unacknowledged("erasure of %s was never acknowledged: %v", id, err)
		return
	}
	for _, by := range []string{r.name, r.name + "-second"} {
		r.clients.history.labeled(labelKey{id, by}, labelState{})
	}
	r.clients.history.count("responses erased", 1)
}

// request repeats a request until it succeeds.
func (r *rater) request(rng *rand.Rand, method, path string, body []byte, want int, into any) error {
	return r.clients.until(func() error { return r.try(rng, method, path, body, want, into) })
}

// try sends a request once.
func (r *rater) try(rng *rand.Rand, method, path string, body []byte, want int, into any) error {
	status, _, reply, err := r.clients.call(rng, method, path, body)
	switch {
	case err != nil:
		return err
	case status != want:
		r.clients.history.count("labels refused for a while", 1)
		return fmt.Errorf("%d: %.300s", status, reply)
	case into == nil:
		return nil
	}
	return json.Unmarshal(reply, into)
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
