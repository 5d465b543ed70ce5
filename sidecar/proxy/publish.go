package proxy

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
)

// Publication is the verdict of a guarded response, as it is published.
type Publication struct {
	Verdict     string // compliant, violating or unknown
	Traceparent string // of the request, or ""
	Body        []byte // a JSON object: time, endpoint, request_id and the members of Report
}

// Publisher passes verdicts on. It may block: responses never wait for it. It is called
// from one goroutine.
type Publisher func(Publication) error

// publicationJSON is the body of a Publication.
type publicationJSON struct {
	Time      time.Time `json:"time"`
	Endpoint  endpoint  `json:"endpoint"` // chat, completions or responses
	RequestID string    `json:"request_id,omitzero"`
	Report    `json:",inline"`
}

const (
	// maxUnpublished bounds the verdicts that wait for the publisher.
	maxUnpublished = 1024
	// maxPublication bounds the body of a publication, in bytes: NATS servers limit
	// messages to 1 MiB by default.
	maxPublication = 256 << 10
)

// publications are the verdicts that wait to be published. A nil *publications
// publishes nothing.
type publications struct {
	publish Publisher
	dropped prometheus.Counter
	waiting chan publication
	stop    chan struct{}
	running sync.WaitGroup
}

// publication is a verdict that is not encoded yet.
type publication struct {
	publicationJSON
	traceparent string
}

func newPublications(publish Publisher, dropped prometheus.Counter) *publications {
	if publish == nil {
		return nil
	}
	p := &publications{publish: publish, dropped: dropped, waiting: make(chan publication, maxUnpublished), stop: make(chan struct{})}
	p.running.Go(p.run)
	return p
}

// add queues the verdict of a response, or drops it if too many wait.
func (p *publications) add(e endpoint, response *http.Response, r Report) {
	if p == nil {
		return
	}
	request := response.Request.Header
	one := publication{
		publicationJSON{time.Now().UTC(), e, cmp.Or(response.Header.Get("X-Request-Id"), request.Get("X-Request-Id")), r},
		request.Get("Traceparent"),
	}
	select {
	case p.waiting <- one:
	default:
		p.dropped.Inc()
	}
}

// run publishes until close.
func (p *publications) run() {
	for {
		select {
		case one := <-p.waiting:
			p.send(one)
		case <-p.stop:
			for {
				select {
				case one := <-p.waiting:
					p.send(one)
				default:
					return
				}
			}
		}
	}
}

func (p *publications) send(one publication) {
	body, err := json.Marshal(one.publicationJSON)
	if err == nil && len(body) > maxPublication {
		one.Texts = nil
		body, err = json.Marshal(one.publicationJSON)
	}
	if err == nil {
		err = p.publish(Publication{one.verdict(), one.traceparent, body})
	}
	if err != nil {
		p.dropped.Inc()
	}
}

// close publishes what waits.
func (p *publications) close() {
	if p == nil {
		return
	}
	close(p.stop)
	p.running.Wait()
}
