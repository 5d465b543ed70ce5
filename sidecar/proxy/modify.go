package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
)

// VerdictHeader is the header or trailer with the [Report].
const VerdictHeader = "Assay-Verdict"

// exchange is a guarded request.
type exchange struct {
	endpoint endpoint
	info     requestInfo
	answer   *answer
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	e, _ := r.Context().Value(exchangeKey{}).(*exchange)
	return e
}

// stream guards the events of a response.
type stream interface {
	// event handles an event. It returns io.EOF after the last one.
	event(e serverEvent) error
	// end ends the response. complete: the upstream has sent its last event, or mode
	// stop has canceled it.
	end(complete bool) error
}

// modify puts the guard in front of the body of a response.
func (p *Proxy) modify(r *http.Response) error {
	e := exchangeOf(r.Request)
	if e == nil || r.StatusCode >= 300 || r.StatusCode == http.StatusNoContent {
		return nil
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encoding := r.Header.Get("Content-Encoding")
	switch readable := r.StatusCode == http.StatusOK && (encoding == "" || encoding == "identity"); {
	case readable && media == "text/event-stream":
		p.guardStream(e, r)
		return nil
	case readable && media == "application/json":
		return p.guardBody(e, r)
	}
	return p.unscored(e, fmt.Errorf("%w: status %d, Content-Type %q, Content-Encoding %q", errMalformed, r.StatusCode, media, encoding))
}

// unscored counts a failure, and returns it unless the response continues without a verdict.
func (p *Proxy) unscored(e *exchange, err error) error {
	e.answer.failed(err)
	if p.config.Mode.Enforces() && !p.config.FailOpen {
		return err
	}
	return nil
}

// forget removes what describes the upstream's body.
func forget(h http.Header) {
	for _, name := range []string{"Content-Length", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Accept-Ranges"} {
		h.Del(name)
	}
}

// guardBody guards a response that is not streamed.
func (p *Proxy) guardBody(e *exchange, r *http.Response) error {
	r.Body = struct {
		io.Reader
		io.Closer
	}{newIdleReader(r.Body, p.config.UpstreamTimeout, e.answer.abort), r.Body}
	body, err := io.ReadAll(io.LimitReader(r.Body, p.config.MaxBody+1))
	if err != nil {
		return err
	}
	if int64(len(body)) > p.config.MaxBody {
		return p.oversized(e, r, body)
	}
	_ = r.Body.Close()
	sent := body
	var report Report
	if p.config.Mode.Enforces() {
		guard := wholeCompletion
		if e.endpoint == responseEndpoint {
			guard = wholeResponse
		}
		if sent, err = guard(e.answer, body); err != nil {
			e.answer.failed(err)
			if !errors.Is(err, errMalformed) || !p.config.FailOpen {
				return err
			}
			sent = body
		}
		forget(r.Header)
		r.Trailer = nil
		report = e.answer.report()
	} else {
		observeWhole(e.answer, e.endpoint, body)
		report = e.answer.awaitReport()
	}
	p.concluded(e, r, report)
	r.Header.Set(VerdictHeader, report.header())
	r.Header.Set("Content-Length", strconv.Itoa(len(sent)))
	r.ContentLength, r.TransferEncoding = int64(len(sent)), nil
	r.Body = io.NopCloser(bytes.NewReader(sent))
	return nil
}

// concluded counts the verdict of a response and publishes it.
func (p *Proxy) concluded(e *exchange, r *http.Response, report Report) {
	p.metrics.concluded(report)
	p.publications.add(e.endpoint, r, report)
}

// oversized handles a body beyond Config.MaxBody.
func (p *Proxy) oversized(e *exchange, r *http.Response, start []byte) error {
	if err := p.unscored(e, fmt.Errorf("%w: the response is larger than --max-body, %d", errMalformed, p.config.MaxBody)); err != nil {
		return err
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), r.Body), r.Body}
	return nil
}

// guardStream replaces the body of a stream of events. The guard runs on a goroutine,
// which begins when the body is first read, since the trailer is written then, by the guard
// and by the transport, and is read until then; and which ends when the body is closed.
func (p *Proxy) guardStream(e *exchange, r *http.Response) {
	from, to := io.Pipe()
	var guard stream
	switch {
	case !p.config.Mode.Enforces():
		guard = newObservedStream(e.answer, e.endpoint, to)
	case e.endpoint == responseEndpoint:
		guard = newResponseStream(e.answer, to)
	default:
		guard = newChoiceStream(e.answer, to)
	}
	if p.config.Mode.Enforces() {
		r.Trailer = nil
	}
	forget(r.Header)
	r.ContentLength = -1
	trailer := r.Trailer
	if trailer == nil {
		trailer = http.Header{}
		r.Trailer = trailer
	}
	trailer[VerdictHeader] = nil
	r.Header.Set("X-Accel-Buffering", "no")
	upstream := r.Body
	r.Body = &guardedBody{PipeReader: from, upstream: upstream, answer: e.answer, guard: func() {
		events := newEventReader(newIdleReader(upstream, p.config.UpstreamTimeout, e.answer.abort), p.config.MaxBody)
		err := p.pump(e, events, guard, to)
		report := e.answer.report()
		trailer.Set(VerdictHeader, report.header())
		p.concluded(e, r, report)
		_ = to.CloseWithError(err) // nil: the end
	}}
}

// guardedBody is the body of a guarded stream.
type guardedBody struct {
	*io.PipeReader
	upstream io.Closer
	answer   *answer
	guard    func()
	begun    sync.Once
	group    sync.WaitGroup
}

func (b *guardedBody) begin() { b.begun.Do(func() { b.group.Go(b.guard) }) }

func (b *guardedBody) Read(to []byte) (int, error) {
	b.begin()
	return b.PipeReader.Read(to)
}

// Close ends the guard and the upstream.
func (b *guardedBody) Close() error {
	b.answer.cancel(context.Canceled)
	_ = b.PipeReader.Close()
	b.begin() // a response that nobody has read has a verdict too
	err := b.upstream.Close()
	b.group.Wait()
	b.answer.group.Wait()
	return err
}

// pump passes the events of the upstream through the guard. Its error ends the
// connection of the client early, as the upstream's has ended.
func (p *Proxy) pump(e *exchange, events *eventReader, guard stream, out io.Writer) error {
	var complete bool
	var broken error
	for {
		event, err := events.next()
		if err == nil {
			err = guard.event(event)
		}
		if errors.Is(err, errMalformed) && p.config.FailOpen {
			e.answer.failed(err)
			_, err = out.Write(event.raw)
		}
		if err == nil && e.answer.ctx.Err() == nil {
			continue
		}
		complete = errors.Is(err, io.EOF) && event.isDone() || e.answer.allStopped()
		if !errors.Is(err, io.EOF) && !e.answer.allStopped() {
			broken = err
		}
		break
	}
	if err := guard.end(complete); err != nil && broken == nil {
		broken = err
	}
	if cause := e.answer.aborted(); errors.Is(cause, errGuard) || errors.Is(cause, errIdle) || errors.Is(cause, errMalformed) || errors.Is(broken, errMalformed) || errors.Is(broken, errEventSize) {
		return p.endWithError(e, errors.Join(cause, broken), out)
	}
	return broken
}

// endWithError reports to the client why its stream ends, in an event that OpenAI's
// clients raise as an error.
func (p *Proxy) endWithError(e *exchange, cause error, out io.Writer) error {
	e.answer.failed(cause)
	e.answer.cancel(cause)
	f := failureOf(cause)
	if e.endpoint == responseEndpoint {
		return writeEvent(out, "error", encode(f.responseEvent()))
	}
	return errors.Join(writeEvent(out, "", encode(f.body())), writeEvent(out, "", []byte(done)))
}
