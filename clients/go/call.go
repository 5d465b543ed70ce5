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
	mediaJSON   = "application/json"
	mediaNDJSON = "application/x-ndjson"
	mediaSSE    = "text/event-stream"
)

// call is a request and the function that parses its response body.
type call struct {
	method        string
	path          string // escaped, with the query
	media         string // media type of body
	body          []byte // nil if there is none
	first         int    // index in the caller's input of the first item in body; -1 if there are no items
	priority      string // Options.Priority
	nonIdempotent bool
	parse         func(body []byte) error
}

func get(path string, parse func([]byte) error) call {
	return call{method: http.MethodGet, path: path, first: -1, parse: parse}
}

// change is a call that must not be applied twice.
func change(path string, body []byte, parse func([]byte) error) call {
	return call{method: http.MethodPost, path: path, media: mediaJSON, body: body, first: -1, nonIdempotent: true, parse: parse}
}

func (c *Client) do(ctx context.Context, k call) error {
	return c.retry.attempts(ctx, !k.nonIdempotent, func() error { return c.attempt(ctx, k) })
}

func (c *Client) attempt(ctx context.Context, k call) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no complete response within %v", c.timeout))
	defer cancel()
	response, sent, err := c.send(ctx, k, mediaJSON)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return transportError(ctx, sent, err)
	}
	if response.StatusCode/100 != 2 {
		return newAPIError(response, body, k.first, time.Now())
	}
	return k.parse(body)
}

// send makes one request. It returns a response of any status, with an unread
// body, and whether the service may have received the request.
func (c *Client) send(ctx context.Context, k call, accept string) (response *http.Response, sent bool, err error) {
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
	if err := c.authorize(request); err != nil {
		return nil, false, err
	}
	if k.priority != "" {
		request.Header.Set("X-Priority", k.priority)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline), time.Millisecond)
		request.Header.Set("X-Request-Timeout", strconv.FormatFloat(left.Seconds(), 'f', 3, 64))
	}
	response, err = c.http.Do(request)
	if err != nil {
		return nil, false, transportError(ctx, connected.Load(), err)
	}
	return response, true, nil
}

// authorize adds the token to a request, if there is one.
func (c *Client) authorize(request *http.Request) error {
	token, err := c.bearer()
	if err == nil && token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return err
}

// transportError wraps a failure without a complete response. If ctx has ended,
// its cause replaces err.
func transportError(ctx context.Context, sent bool, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return &TransportError{Sent: sent, Err: err}
}

// into returns a function that decodes a response body into target and checks it.
func into[T any](target *T, check func(T) error) func([]byte) error {
	return func(body []byte) error {
		var value T
		if err := json.Unmarshal(body, &value); err != nil {
			return &InvalidResponseError{err}
		}
		if err := check(value); err != nil {
			return err
		}
		*target = value
		return nil
	}
}

// encode returns value as JSON on one line, without HTML escapes.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// pathSegment escapes value for use as one segment of a path.
func pathSegment(name, value string) (string, error) {
	if value == "" || value == "." || value == ".." || !utf8.ValidString(value) {
		return "", &InputError{-1, name, fmt.Sprintf("invalid value %q", value)}
	}
	return url.PathEscape(value), nil
}

// Request is a request for Client.Call.
type Request struct {
	Method    string // HTTP method; "" is GET
	Path      string // escaped, with the query, such as "/v1/models"
	MediaType string // of Body; "" is application/json
	Body      []byte // nil if there is none
	// Idempotent reports that sending the request twice has the effect of sending it once. Other requests than GET and
	// DELETE without it are retried only if the service has not processed them.
	Idempotent bool
}

// Call sends a request to an endpoint, with the token, the timeout and the retries of the other methods, and returns
// the body of the response: for endpoints and formats that no other method covers.
func (c *Client) Call(ctx context.Context, r Request) ([]byte, error) {
	method := cmp.Or(r.Method, http.MethodGet)
	var response []byte
	err := c.do(ctx, call{
		method: method, path: r.Path, media: cmp.Or(r.MediaType, mediaJSON), body: r.Body, first: -1,
		nonIdempotent: !r.Idempotent && method != http.MethodGet && method != http.MethodDelete,
		parse: func(body []byte) error {
			response = body
			return nil
		},
	})
	return response, err
}
