package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
)

var (
	errBusy      = errors.New("the proxy has --max-requests guarded requests in flight; retry later")
	errUnguarded = errors.New("the proxy forwards only requests that it can score (--guarded-only)")
	errBody      = errors.New("the body of the request cannot be read")
	errIdle      = errors.New("the upstream sent nothing within --upstream-timeout")
)

// Proxy is the handler of all requests. Make one with [New].
type Proxy struct {
	config  Config
	guard   Guard
	metrics *metrics
	log     zerolog.Logger
	slots   *semaphore.Weighted

	publications *publications

	transport *http.Transport
	reverse   *httputil.ReverseProxy
}

// New returns a proxy that scores with guard and registers its metrics with registry.
func New(config Config, guard Guard, log zerolog.Logger, registry prometheus.Registerer) (*Proxy, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(registry)
	if err != nil {
		return nil, err
	}
	p := &Proxy{config: config, guard: guard, metrics: m, log: log, slots: semaphore.NewWeighted(int64(config.MaxRequests)), transport: newTransport(config)}
	p.publications = newPublications(config.Publish, m.dropped)
	var transport http.RoundTripper = p.transport
	if config.Transport != nil {
		transport = config.Transport
	}
	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: transport, FlushInterval: -1,
		ModifyResponse: p.modify, ErrorHandler: p.fail, ErrorLog: stdlog.New(reverseLog{log}, "", 0),
	}
	return p, nil
}

// idleTimeout is below the 5 s after which Uvicorn, the server of vLLM and SGLang, closes
// an idle connection: a request that is sent at that moment is lost, and cannot be repeated
// since the upstream may have begun it.
const idleTimeout = 4 * time.Second

// newTransport never decompresses: a body passes as it is, and guarded requests ask for
// none that is compressed.
func newTransport(config Config) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: config.MaxRequests, IdleConnTimeout: idleTimeout,
		TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
		ResponseHeaderTimeout: config.UpstreamTimeout,
	}
}

// Close publishes the verdicts that wait for that, and closes idle connections to the
// upstream.
func (p *Proxy) Close() {
	p.publications.close()
	p.transport.CloseIdleConnections()
}

// reverseLog receives what ReverseProxy reports, mostly clients that left.
type reverseLog struct{ log zerolog.Logger }

func (l reverseLog) Write(line []byte) (int, error) {
	l.log.Debug().Bytes("detail", bytes.TrimSpace(line)).Msg("proxy connection")
	return len(line), nil
}

func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	if p.config.Transport == nil {
		r.SetURL(p.config.Upstream)
	}
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	if exchangeOf(r.Out) != nil {
		r.Out.Header.Del("Accept-Encoding")
		r.Out.Header.Del("Te")
	}
}

// ServeHTTP guards the endpoints of OpenAI that generate text, and forwards all others.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := endpointOf(r.Method, r.URL.Path)
	counted := &countedWriter{ResponseWriter: w, status: http.StatusOK}
	defer func() { p.metrics.requests.WithLabelValues(string(e), strconv.Itoa(counted.status)).Inc() }()
	switch {
	case e != otherEndpoint:
		p.serveGuarded(counted, r, e)
	case p.config.GuardedOnly && mayHoldText(r):
		failureOf(errUnguarded).write(counted)
	default:
		p.reverse.ServeHTTP(counted, r)
	}
}

// bodyTimeout bounds how long a slow client holds a slot with the body of its request.
const bodyTimeout = time.Minute

// readBody reads the body of a request. Its error wraps errBody, or is a
// *http.MaxBytesError.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails behind Envoy, which has sent all of it
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBody, err)
	}
	_ = connection.SetReadDeadline(time.Time{})
	return body, nil
}

// SessionsPerRequest is the number of texts of a request that are scored at the same time.
// A request with more choices counts as several requests, so that sessions for all that
// Config.MaxRequests admits are enough.
const SessionsPerRequest = 32

// slotsOf is how many requests a request counts as.
func (p *Proxy) slotsOf(r requestInfo) int64 {
	texts := r.choices
	if p.config.ScoreReasoning {
		texts *= 2
	}
	return int64(min((texts+SessionsPerRequest-1)/SessionsPerRequest, p.config.MaxRequests))
}

func (p *Proxy) serveGuarded(w http.ResponseWriter, r *http.Request, kind endpoint) {
	if !p.slots.TryAcquire(1) {
		failureOf(errBusy).write(w)
		return
	}
	defer p.slots.Release(1)
	p.metrics.inFlight.Inc()
	defer p.metrics.inFlight.Dec()
	body, err := readBody(w, r, p.config.MaxBody)
	if err != nil {
		failureOf(err).write(w)
		return
	}
	e := &exchange{endpoint: kind, info: readRequest(kind, body)}
	slots := p.slotsOf(e.info)
	if !p.slots.TryAcquire(slots - 1) {
		failureOf(errBusy).write(w)
		return
	}
	defer p.slots.Release(slots - 1)
	e.answer = p.newAnswer(r.Context(), e)
	e.answer.sessions = int(slots) * SessionsPerRequest
	defer e.answer.end()
	out := r.WithContext(context.WithValue(e.answer.ctx, exchangeKey{}, e))
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	if len(body) == 0 {
		out.Body = http.NoBody
	}
	// The transport sends it again if an idle connection turns out to be closed.
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	p.reverse.ServeHTTP(w, out)
}

// fail responds when there is no response of the upstream, or none that may be forwarded.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	if e := exchangeOf(r); e != nil {
		if cause := e.answer.aborted(); cause != nil {
			err = errors.Join(err, cause)
		}
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, errGuard) && !errors.Is(err, errIdle) {
		w.WriteHeader(statusClientClosed)
		return
	}
	p.log.Warn().Err(err).Str("path", r.URL.Path).Msg("request failed")
	failureOf(err).write(w)
}

// statusClientClosed is the status in the metrics of a request whose client left.
const statusClientClosed = 499

// sendTimeout is how long a client may take to receive a part of a response, at most a
// few ten KiB: one that does not read must not keep its slot.
const sendTimeout = 30 * time.Second

// countedWriter remembers the status, and limits the time of each write.
type countedWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *countedWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *countedWriter) Write(p []byte) (int, error) {
	defer w.limit()()
	return w.ResponseWriter.Write(p)
}

// FlushError is what [http.ResponseController] calls to flush.
func (w *countedWriter) FlushError() error {
	defer w.limit()()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// limit sets the write deadline, and returns what clears it: over HTTP/2 its end would end
// the stream, although nothing is being written. A transport of Envoy has no deadlines.
func (w *countedWriter) limit() (clear func()) {
	control := http.NewResponseController(w.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(sendTimeout))
	return func() { _ = control.SetWriteDeadline(time.Time{}) }
}

// Unwrap gives [http.ResponseController] the connection.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
