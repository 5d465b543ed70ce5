package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Transport exchanges the body of a request for that of its reply.
type Transport interface {
	Send(ctx context.Context, body []byte) (reply []byte, err error)
	Close()
}

// StatusError is an HTTP reply other than 200 OK.
type StatusError struct {
	Code       int
	Status     string
	Body       string        // its beginning
	RetryAfter time.Duration // of a header in seconds; 0: none
}

// Error gives the status and the beginning of the body.
func (e *StatusError) Error() string { return e.Status + ": " + e.Body }

// HTTP posts JSON to a URL over persistent connections.
type HTTP struct {
	client *http.Client
	url    string
}

// NewHTTP returns a transport that keeps at most that many idle connections to the URL.
func NewHTTP(url string, connections int) HTTP {
	return HTTP{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}, url}
}

// Send posts the body. It returns a *StatusError for a reply other than 200 OK.
func (h HTTP) Send(ctx context.Context, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		failed := &StatusError{Code: res.StatusCode, Status: res.Status, Body: fmt.Sprintf("%.200s", bytes.TrimSpace(reply))}
		if seconds, bad := strconv.Atoi(res.Header.Get("Retry-After")); bad == nil {
			failed.RetryAfter = time.Duration(seconds) * time.Second
		}
		err = failed
	}
	return reply, err
}

// Close closes the idle connections.
func (h HTTP) Close() { h.client.CloseIdleConnections() }

// NATS sends requests to a subject and closes its connection at the end.
type NATS struct {
	Conn    *nats.Conn
	Subject string
}

// Send waits for the reply; that of a micro service may be an error.
func (n NATS) Send(ctx context.Context, body []byte) ([]byte, error) {
	reply, err := n.Conn.RequestWithContext(ctx, n.Subject, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Subject, err)
	}
	if why := reply.Header.Get("Nats-Service-Error"); why != "" {
		return nil, fmt.Errorf("%s: %s %s", n.Subject, reply.Header.Get("Nats-Service-Error-Code"), why)
	}
	return reply.Data, nil
}

// Close closes the connection.
func (n NATS) Close() { n.Conn.Close() }
