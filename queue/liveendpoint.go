package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/internal/payload"
	"assay/queue/internal/js"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/rewardmodel/wire"
)

// liveJSON is the reply to the request that opens a session.
type liveJSON struct {
	ID      string `json:"session"` // the last token of Subject
	Subject string `json:"subject"` // of the messages of the session
}

// openLive handles a request on assay.v1.live. The session that it opens belongs to
// this replica, so its reply names a subject that only this replica subscribes to.
func (s *service) openLive(ctx context.Context, req micro.Request, _ *rewardmodel.Reservation) ([]byte, micro.Headers, error) {
	held := s.cfg.Memory.Open() // by the session, which keeps what opens it
	opened := false
	defer func() {
		if !opened {
			held.Close()
		}
	}()
	if err := held.Grow(wire.DecodeBytes(req.Data())); err != nil {
		return nil, nil, err
	}
	message, err := wire.DecodeLiveMessage(req.Data(), *s.limits.Load())
	if err != nil {
		return nil, nil, err
	}
	if message.Open == nil {
		return nil, nil, rewardmodel.Invalidf("open", `is missing: a session begins with {"open":{}}; its other messages go to the subject in the reply to that`)
	}
	if req.Reply() == "" {
		return nil, nil, rewardmodel.Invalidf("", "a session needs a reply subject, for the subject of its messages")
	}
	request := *message.Open
	request.Memory, request.Source = held, "nats "+SubjectLive
	session, err := s.cfg.Live.Open(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	opened = true
	subject := s.live.add(session, held).subject
	body, err := json.Marshal(liveJSON{strings.TrimPrefix(subject, s.live.prefix), subject})
	return body, nil, err
}

// acceptLive handles a message of a session, on the goroutine of the subscription. It
// never skips one: a message that is not accepted ends its session, so that no text is
// missing from what is scored.
func (s *service) acceptLive(req micro.Request) {
	e := s.liveEndpoint()
	session, err := s.live.find(req.Subject())
	if req.Reply() == "" || !repliable(req.Reply()) {
		if err == nil {
			err = rewardmodel.Invalidf("", "a message of the session had no reply subject that begins with _INBOX")
			session.fail(err)
		}
		e.codes.WithLabelValues("400").Inc()
		s.log.Warn().Err(err).Str("subject", e.subject).Msg("ignored a message of a live session whose reply subject is not an inbox; the session has ended")
		return
	}
	if err != nil {
		s.reject(e, req, err)
		return
	}
	refuse := func(err error) {
		session.fail(err)
		s.reject(e, req, err)
	}
	memory := s.cfg.Memory.Open()
	if err := memory.Grow(int64(len(req.Data()))); err != nil {
		refuse(err)
		return
	}
	if err := s.enterLive(); err != nil {
		memory.Close()
		refuse(err)
		return
	}
	start, err := session.accept(liveRequest{req, memory})
	if err != nil {
		memory.Close()
		refuse(err)
	}
	if !start {
		s.leave(true)
		return
	}
	go func() {
		defer s.leave(true)
		for batch := session.take(); batch != nil; batch = session.take() {
			s.handleLive(session, batch)
		}
	}()
}

func (s *service) liveEndpoint() endpoint {
	return endpoint{name: "live-session", subject: s.live.prefix + "*", codes: s.metrics.live}
}

// handleLive handles messages that arrived one after the other. Each gets one reply.
// Pieces of text that waited together are scored together: the reply to the last one
// has their events.
func (s *service) handleLive(session *liveSession, batch []liveRequest) {
	defer func() {
		for _, r := range batch {
			r.memory.Close()
		}
	}()
	e := s.liveEndpoint()
	for rest := batch; len(rest) > 0; {
		n, out, err := s.liveStep(session, rest)
		if err != nil {
			session.fail(err)
			for _, r := range rest {
				s.reject(e, r, err)
			}
			return
		}
		for _, r := range rest[:n-1] {
			s.reply(e, http.StatusOK, r, nil, nil)
		}
		s.reply(e, http.StatusOK, rest[n-1], out.headers, out.body)
		rest = rest[n:]
	}
}

// liveReply is the reply to the last message of a step.
type liveReply struct {
	headers nats.Header
	body    []byte // a line of JSON for each event
}

// liveStep feeds the pieces of text at the start of batch to the session, or closes it
// if the first message says so. n is the number of messages that it handled, of which it
// returns the reply to the last.
func (s *service) liveStep(session *liveSession, batch []liveRequest) (n int, out liveReply, err error) {
	var text strings.Builder
	for n < len(batch) {
		message, err := s.decodeLive(batch[n])
		switch {
		case err != nil:
			return 0, out, err
		case message.Open != nil:
			return 0, out, rewardmodel.Invalidf("open", "the session is open; open another one on %s", SubjectLive)
		case message.Close && n > 0:
			// The texts before it are a step of their own.
		case message.Close:
			out, err := s.stepContext(session, batch[0], s.closeLive)
			return 1, out, err
		default:
			text.WriteString(*message.Text)
			n++
			continue
		}
		break
	}
	out, err = s.stepContext(session, batch[n-1], func(ctx context.Context, session *liveSession, r liveRequest) (liveReply, error) {
		events, err := session.session.Feed(ctx, text.String())
		if err != nil {
			return liveReply{}, err
		}
		return s.renderLive(r, events, nil)
	})
	return n, out, err
}

func (s *service) decodeLive(r liveRequest) (wire.LiveMessage, error) {
	if err := r.memory.Grow(wire.DecodeBytes(r.Data())); err != nil {
		return wire.LiveMessage{}, err
	}
	return wire.DecodeLiveMessage(r.Data(), *s.limits.Load())
}

// stepContext calls step with the timeout, the span and the recovery from panics of a
// request.
func (s *service) stepContext(session *liveSession, r liveRequest, step func(context.Context, *liveSession, liveRequest) (liveReply, error)) (out liveReply, err error) {
	if err := session.failure(); err != nil {
		return liveReply{}, err
	}
	wait, err := timeout(r.Headers().Get(HeaderTimeout), s.cfg.Timeout)
	if err != nil {
		return liveReply{}, err
	}
	traced, span := s.cfg.Tracer.Continue(s.working, SubjectLive, oteltrace.SpanKindServer,
		traceHeader(r.Headers(), HeaderTraceparent), traceHeader(r.Headers(), HeaderTracestate))
	ctx, cancel := context.WithTimeout(traced, wait)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			s.metrics.panics.WithLabelValues(kindRequest).Inc()
			err = js.Recovered(value, kindRequest, s.log)
		}
		switch {
		case s.working.Err() != nil && errors.Is(err, context.Canceled):
			err = rewardmodel.ErrClosed
		case errors.Is(err, live.ErrEnded):
			err = errNoSession
		}
		endRequestSpan(span, SubjectLive, err)
	}()
	return step(ctx, session, r)
}

func (s *service) closeLive(ctx context.Context, session *liveSession, r liveRequest) (liveReply, error) {
	events, answer, err := session.session.Close(ctx)
	if err != nil {
		return liveReply{}, err
	}
	session.fail(errNoSession) // for messages after it
	out, err := s.renderLive(r, events, &answer)
	out.headers = modelHeaders(answer.Model)
	return out, err
}

// renderLive renders events and, at the end of a session, its result, one per line.
func (s *service) renderLive(r liveRequest, events []rewardmodel.LiveEvent, answer *rewardmodel.ScoreResponse) (liveReply, error) {
	limit := s.nc.MaxPayload() - deadRoom
	out := payload.NewBuffer(r.memory, limit, func(size int64) error {
		return tooLarge("the reply", size, limit, "send shorter pieces, or use HTTP")
	})
	for _, event := range events {
		line, err := wire.AppendLiveEvent(nil, event)
		if err != nil {
			return liveReply{}, err
		}
		if err := writeLine(out, line); err != nil {
			return liveReply{}, err
		}
	}
	if answer != nil {
		line, err := wire.AppendLiveResult(nil, *answer)
		if err != nil {
			return liveReply{}, err
		}
		if err := writeLine(out, line); err != nil {
			return liveReply{}, err
		}
	}
	return liveReply{body: out.Bytes()}, nil
}

func writeLine(out *payload.Buffer, line []byte) error {
	_, err := fmt.Fprintf(out, "%s\n", line)
	return err
}
