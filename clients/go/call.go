package assay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	mediaJSON  = "application/json"
	mediaLines = "application/x-ndjson"
	mediaSSE   = "text/event-stream"
)

// call is a request and how to read its answer.
type call struct {
	method string
	path   string // escaped, with the query
	media  string // of body
	body   []byte // nil: none
	first  int    // place of the first item of body among those of the caller; -1: there are none
	urgent string // Options.Priority
	once   bool   // making it twice is not the same as making it once
	read   func(body []byte) error
}

func get(path string, read func([]byte) error) call {
	return call{method: http.MethodGet, path: path, first: -1, read: read}
}

// change is a call that must not be made twice.
func change(path string, body []byte, read func([]byte) error) call {
	return call{method: http.MethodPost, path: path, media: mediaJSON, body: body, first: -1, once: true, read: read}
}

func (c *Client) do(ctx context.Context, k call) error {
	return c.retry.attempts(ctx, !k.once, func() error { return c.attempt(ctx, k) })
}

func (c *Client) attempt(ctx context.Context, k call) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("nothing within %v", c.timeout))
	defer cancel()
	answer, sent, err := c.send(ctx, k, mediaJSON)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return lost(ctx, sent, err)
	}
	if answer.StatusCode/100 != 2 {
		return refusal(answer, body, k.first, time.Now())
	}
	return k.read(body)
}

// send returns an answer of any status, whose body is still to be read.
func (c *Client) send(ctx context.Context, k call, accept string) (answer *http.Response, sent bool, err error) {
	var connected atomic.Bool // the hook may run on another goroutine
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	request, err := http.NewRequestWithContext(ctx, k.method, c.base+k.path, body)
	if err != nil {
		return nil, false, &InputError{-1, "address", err.Error()}
	}
	if k.body != nil {
		request.Header.Set("Content-Type", k.media)
	}
	request.Header.Set("Accept", accept)
	token, err := c.bearer()
	if err != nil {
		return nil, false, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if k.urgent != "" {
		request.Header.Set("X-Priority", k.urgent)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline), time.Millisecond)
		request.Header.Set("X-Request-Timeout", strconv.FormatFloat(left.Seconds(), 'f', 3, 64))
	}
	answer, err = c.http.Do(request)
	if err != nil {
		return nil, false, lost(ctx, connected.Load(), err)
	}
	return answer, true, nil
}

// lost is a failure without an answer; when it was the end of ctx, that says why.
func lost(ctx context.Context, sent bool, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return &TransportError{Sent: sent, Err: err}
}

// into reads an answer that check finds complete.
func into[T any](target *T, check func(T) error) func([]byte) error {
	return func(body []byte) error {
		var value T
		if err := json.Unmarshal(body, &value); err != nil {
			return &AnswerError{err}
		}
		if err := check(value); err != nil {
			return err
		}
		*target = value
		return nil
	}
}

// encode writes JSON without HTML escapes, on one line.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// part is value as one part of a path.
func part(name, value string) (string, error) {
	if value == "" || value == "." || value == ".." || !utf8.ValidString(value) {
		return "", &InputError{-1, name, fmt.Sprintf("%q is none", value)}
	}
	return url.PathEscape(value), nil
}

// Request is one for Client.Call.
type Request struct {
	Method    string // of HTTP; GET
	Path      string // escaped, with the query, such as "/v1/models"
	MediaType string // of Body; JSON
	Body      []byte // nil: none
	// Repeatable says that making the request twice is the same as making it once. Without it, a request other than
	// GET and DELETE is tried again only when the service has certainly done nothing.
	Repeatable bool
}

// Call makes a request to an endpoint, with the token, the timeout and the retries of the other methods, and returns
// the body of the response as it is: for endpoints and formats that no other method covers.
func (c *Client) Call(ctx context.Context, r Request) ([]byte, error) {
	method := cmp.Or(r.Method, http.MethodGet)
	var answer []byte
	err := c.do(ctx, call{
		method: method, path: r.Path, media: cmp.Or(r.MediaType, mediaJSON), body: r.Body, first: -1,
		once: !r.Repeatable && method != http.MethodGet && method != http.MethodDelete,
		read: func(body []byte) error {
			answer = body
			return nil
		},
	})
	return answer, err
}
