// Package httpjson is what all HTTP endpoints share: reading a body within the
// limits of its exchange, writing JSON, and reporting failures.
package httpjson

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
)

// Handler serves a request, or returns an error, which [Fail] maps to a
// response.
type Handler func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		Fail(w, r, err)
	}
}

// WithFailures reports the failures of h in the error format of another
// project; nil is assay's own.
func (h Handler) WithFailures(encode failure.Encoder) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		exchange.Of(r).EncodeFailure = encode
		return h(w, r)
	}
}

// Access specifies who may call a route, and which middleware it needs.
type Access int

const (
	// Public routes are probes, which need no token.
	Public Access = iota
	// Read routes describe models: they need the scope score, and have a timeout.
	Read
	// Score routes score: like Read, and with a priority.
	Score
)

// Route is an endpoint of a protocol of another project.
type Route struct {
	Method        string // GET routes serve HEAD as well
	Pattern       string // chi's
	Summary       string // what GET / lists
	Access        Access
	EncodeFailure failure.Encoder // nil: assay's own error format
	Handler       Handler
}

// Post returns a route that scores.
func Post(pattern, summary string, encode failure.Encoder, h Handler) Route {
	return Route{Method: http.MethodPost, Pattern: pattern, Summary: summary, Access: Score, EncodeFailure: encode, Handler: h}
}

// Get returns a route that describes the service or its models.
func Get(pattern, summary string, access Access, encode failure.Encoder, h Handler) Route {
	return Route{Method: http.MethodGet, Pattern: pattern, Summary: summary, Access: access, EncodeFailure: encode, Handler: h}
}

// PathValue returns a segment of the path as the client meant it. The router
// sees the path as sent if that has escapes that decoding would lose.
func PathValue(r *http.Request, name string) (string, error) {
	value := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return value, nil
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return "", failure.Invalid(name, "is not escaped as a part of a path: %v", err)
	}
	return plain, nil
}
