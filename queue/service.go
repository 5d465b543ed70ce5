package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/payload"
	"assay/internal/trace"
	"assay/queue/internal/js"
	"assay/queue/labels"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/live"
	"assay/rewardmodel/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// ServiceConfig configures the service on assay.v1.score, assay.v1.feedback and assay.v1.live. Zero
// values mean the defaults.
type ServiceConfig struct {
	Version     string          // of assay, for service discovery
	Timeout     time.Duration   // of one request, default 60 s; the header Assay-Timeout may shorten it
	MaxRequests int             // concurrent requests; more are rejected with 503. Default 256
	Limits      wire.Limits     // of one score request
	Feedback    feedback.Limits // of one batch of feedback
	// Memory limits the memory of requests, together with whatever else shares it;
	// beyond it requests are rejected with 503. nil: no limit
	Memory *rewardmodel.Memory
	// Tracer starts the spans of requests; nil: none
	Tracer *trace.Tracer
	// Live has the live sessions of the process; nil: no service on assay.v1.live
	Live *live.Sessions
}

// appender stores feedback; see labels.Log.Append.
type appender interface {
	Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error)
}

var _ appender = (*labels.Log)(nil)

// service is the NATS micro service "assay". Replicas form a queue group, so that one of
// them gets a request.
type service struct {
	nc      *nats.Conn
	scorer  Scorer
	labels  appender
	live    *liveSessions
	cfg     ServiceConfig
	limits  atomic.Pointer[wire.Limits] // of cfg, until Queue.SetLimits
	log     zerolog.Logger
	metrics *metrics
	micro   micro.Service

	working context.Context
	abort   context.CancelFunc

	mu       sync.Mutex
	closed   bool
	inFlight int
	feeding  int           // of them, live sessions, which have a limit of their own
	idle     chan struct{} // closed when closed and nothing is in flight
}

// DefaultMaxRequests is the number of requests that a service without
// ServiceConfig.MaxRequests processes concurrently.
const DefaultMaxRequests = 256

// semver is the format of a version in the micro service protocol.
const semver = `^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`

func startService(nc *nats.Conn, scorer Scorer, store appender, cfg ServiceConfig, log zerolog.Logger, m *metrics) (*service, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	cfg.MaxRequests = cmp.Or(cfg.MaxRequests, DefaultMaxRequests)
	if cfg.Timeout < 0 || cfg.MaxRequests < 0 {
		return nil, errors.New("NATS service: the timeout and the maximum of requests must be positive")
	}
	s := &service{nc: nc, scorer: scorer, labels: store, live: newLiveSessions(), cfg: cfg, log: log, metrics: m, idle: make(chan struct{})}
	s.limits.Store(&cfg.Limits)
	s.working, s.abort = context.WithCancel(context.Background())
	version := strings.TrimPrefix(cfg.Version, "v")
	if ok, err := regexp.MatchString(semver, version); err != nil || !ok {
		version = "0.0.0" // a build without a release tag
	}
	svc, err := micro.AddService(nc, micro.Config{
		Name:        ServiceName,
		Version:     version,
		Description: "compliance rewards and witness spans for responses",
		QueueGroup:  ServiceName,
		Metadata:    map[string]string{"version": cfg.Version},
		ErrorHandler: func(_ micro.Service, err *micro.NATSError) {
			log.Error().Err(err).Msg("NATS service")
		},
	})
	if err != nil {
		return nil, fmt.Errorf("NATS service: %w", err)
	}
	s.micro = svc
	if err := s.addEndpoints(); err != nil {
		return nil, errors.Join(fmt.Errorf("NATS service: %w", err), svc.Stop())
	}
	return s, nil
}

func (s *service) addEndpoints() error {
	endpoints := []endpoint{
		{"score", SubjectScore, s.score, s.metrics.requests},
		{"feedback", labels.SubjectFeedback, s.feedback, s.metrics.batches},
	}
	if s.cfg.Live != nil {
		endpoints = append(endpoints, endpoint{"live", SubjectLive, s.openLive, s.metrics.live})
		e := s.liveEndpoint()
		err := s.micro.AddEndpoint(e.name, micro.HandlerFunc(s.acceptLive), micro.WithEndpointSubject(e.subject), micro.WithEndpointQueueGroupDisabled())
		if err != nil {
			return err
		}
	}
	for _, e := range endpoints {
		if err := s.micro.AddEndpoint(e.name, s.accept(e), micro.WithEndpointSubject(e.subject)); err != nil {
			return err
		}
	}
	return nil
}

// endpoint is the handler of one subject.
type endpoint struct {
	name, subject string
	answer        func(context.Context, micro.Request, *rewardmodel.Reservation) (body []byte, headers micro.Headers, err error)
	codes         *prometheus.CounterVec
}

// accept returns the handler that runs on the goroutine of the subscription: it only
// admits requests.
func (s *service) accept(e endpoint) micro.HandlerFunc {
	return func(req micro.Request) {
		if !repliable(req.Reply()) {
			e.codes.WithLabelValues(strconv.Itoa(http.StatusBadRequest)).Inc()
			s.log.Warn().Str("subject", e.subject).Str("reply", fmt.Sprintf("%.80s", req.Reply())).
				Msg("ignored a request whose reply subject is not an inbox; reply subjects start with _INBOX")
			return
		}
		if err := s.enter(); err != nil {
			s.reject(e, req, err)
			return
		}
		memory := s.cfg.Memory.Open()
		if err := memory.Grow(rewardmodel.RequestBytes + int64(len(req.Data()))); err != nil {
			s.leave(false)
			s.reject(e, req, err)
			return
		}
		go func() {
			defer s.leave(false)
			defer memory.Close()
			s.answer(e, req, memory)
		}()
	}
}

// repliable reports whether a reply may be sent to a subject: an inbox, or the subject
// that replaces it in a request from another account or cluster. A reply to any other
// subject would be a write with the permissions of assay.
func repliable(subject string) bool {
	for _, prefix := range []string{"_INBOX", "_R_.", "_GR_."} {
		if strings.HasPrefix(subject, prefix) {
			return true
		}
	}
	return subject == ""
}

func (s *service) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return rewardmodel.ErrClosed
	case s.inFlight-s.feeding >= s.cfg.MaxRequests:
		return fmt.Errorf("%d requests are in flight: %w", s.inFlight-s.feeding, rewardmodel.ErrOverloaded)
	}
	s.inFlight++
	return nil
}

// enterLive is enter for a message of a live session: MaxRequests does not apply, since
// the number of sessions is limited.
func (s *service) enterLive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return rewardmodel.ErrClosed
	}
	s.inFlight++
	s.feeding++
	return nil
}

func (s *service) leave(live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if live {
		s.feeding--
	}
	if s.closed && s.inFlight == 0 {
		close(s.idle)
	}
}

func (s *service) answer(e endpoint, req micro.Request, memory *rewardmodel.Reservation) {
	wait, err := timeout(req.Headers().Get(HeaderTimeout), s.cfg.Timeout)
	if err != nil {
		s.reject(e, req, err)
		return
	}
	traced, span := s.cfg.Tracer.Continue(s.working, e.subject, oteltrace.SpanKindServer,
		traceHeader(req.Headers(), HeaderTraceparent), traceHeader(req.Headers(), HeaderTracestate))
	ctx, cancel := context.WithTimeout(traced, wait)
	defer cancel()
	body, headers, err := s.call(ctx, e, req, memory)
	if s.working.Err() != nil && errors.Is(err, context.Canceled) {
		err = rewardmodel.ErrClosed
	}
	endRequestSpan(span, e.subject, err)
	if err != nil {
		s.reject(e, req, err)
		return
	}
	s.reply(e, http.StatusOK, req, nats.Header(headers), body)
}

// call turns a panic, for example in decoding, into an error of this request only.
func (s *service) call(ctx context.Context, e endpoint, req micro.Request, memory *rewardmodel.Reservation) (body []byte, headers micro.Headers, err error) {
	defer func() {
		if value := recover(); value != nil {
			s.metrics.panics.WithLabelValues(kindRequest).Inc()
			err = js.Recovered(value, kindRequest, s.log)
		}
	}()
	return e.answer(ctx, req, memory)
}

func (s *service) score(ctx context.Context, req micro.Request, memory *rewardmodel.Reservation) ([]byte, micro.Headers, error) {
	if err := memory.Grow(wire.DecodeBytes(req.Data())); err != nil {
		return nil, nil, err
	}
	request, err := wire.DecodeRequest(req.Data(), *s.limits.Load())
	if err != nil {
		return nil, nil, err
	}
	if request.Priority, err = rewardmodel.ParsePriority(HeaderPriority, req.Headers().Get(HeaderPriority)); err != nil {
		return nil, nil, err
	}
	request.Memory, request.Source = memory, "nats "+SubjectScore
	answer, err := s.scorer.Score(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	limit := s.nc.MaxPayload() - deadRoom
	out := payload.NewBuffer(memory, limit, func(size int64) error {
		return tooLarge("the result", size, limit, `send fewer responses per request, or "options":{"instances":false}`)
	})
	err = wire.WriteScoreResponse(out, answer)
	return out.Bytes(), micro.Headers(modelHeaders(answer.Model)), err
}

// timeout returns the timeout that the client requests, at most limit.
func timeout(header string, limit time.Duration) (time.Duration, error) {
	if header == "" {
		return limit, nil
	}
	asked, err := time.ParseDuration(header)
	if err != nil || asked <= 0 {
		return 0, &rewardmodel.InputError{Field: HeaderTimeout, Message: fmt.Sprintf("%.40q is not a positive duration such as 2s or 500ms", header)}
	}
	return min(asked, limit), nil
}

func (s *service) reject(e endpoint, req micro.Request, err error) {
	why := describe(err)
	switch {
	case why.Code == http.StatusInternalServerError:
		s.log.Error().Str("error", rewardmodel.Shorten(err.Error())).Str("subject", e.subject).Msg("a request failed")
	case req.Reply() == "": // otherwise the error is lost
		s.log.Warn().Str("error", why.Error()).Str("subject", e.subject).Msg("rejected a request without a reply subject")
	}
	headers := nats.Header{
		micro.ErrorHeader:     {js.HeaderValue(why.Error())},
		micro.ErrorCodeHeader: {strconv.Itoa(why.Code)},
	}
	if why.RetryAfter > 0 {
		headers[HeaderRetryAfter] = []string{strconv.Itoa(int(math.Ceil(why.RetryAfter.Seconds())))}
	}
	body, err := why.body()
	if err != nil {
		s.log.Error().Err(err).Msg("cannot encode an error")
	}
	s.reply(e, why.Code, req, headers, body)
}

// reply replies, if the request has a reply subject. It bypasses the methods of
// micro.Request, which are for handlers that have not returned: micro checks the error
// of a request when its handler returns.
func (s *service) reply(e endpoint, code int, req micro.Request, headers nats.Header, body []byte) {
	e.codes.WithLabelValues(strconv.Itoa(code)).Inc()
	if req.Reply() == "" {
		return
	}
	if err := s.nc.PublishMsg(&nats.Msg{Subject: req.Reply(), Header: headers, Data: body}); err != nil {
		s.log.Warn().Err(err).Str("subject", e.subject).Msg("cannot reply to a request")
	}
}

// drain leaves the queue group, so that other replicas get new requests, and finishes
// those in flight; it rejects with 503 what is not done when ctx ends.
//
// Live sessions end with it: their next messages find no responders.
func (s *service) drain(ctx context.Context) error {
	defer s.live.end()
	defer s.abort()
	err := s.micro.Stop()
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil // it left the group already
	}
	if s.nc.Status() == nats.CONNECTED {
		// After the reply to a ping, every request that the server sent is queued
		// for accept. Without a reply no request comes either.
		ping, cancel := context.WithTimeout(ctx, js.RequestTimeout)
		defer cancel()
		_ = s.nc.FlushWithContext(ping)
	}
	s.mu.Lock()
	s.closed = true
	if s.inFlight == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
	case <-ctx.Done():
		s.abort()
		<-s.idle
		err = errors.Join(err, fmt.Errorf("draining NATS requests: %w", context.Cause(ctx)))
	}
	return err
}
