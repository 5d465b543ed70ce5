package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"assay/rewardmodel/feedback"
	"assay/rewardmodel/wire"
)

// Config holds the settings of the HTTP server. [DefaultConfig] gives every
// field a working value.
type Config struct {
	// MaxBody limits the body of a request, and a gRPC message, in bytes after
	// decompression. Larger ones fail with 413.
	MaxBody int64
	// RequestTimeout is the maximum time of a request, from its headers to its
	// response. A client may request less with the header X-Request-Timeout, never
	// more. A gRPC stream without a request for that long ends as well.
	RequestTimeout time.Duration
	// HeaderTimeout is the maximum time to receive the headers of a request.
	HeaderTimeout time.Duration
	// MinRate is the minimum average rate of a body in either direction, in bytes
	// per second, once HeaderTimeout has passed. A slower client is disconnected:
	// its request would keep memory from others.
	MinRate int64
	// IdleTimeout closes an idle keep-alive connection.
	IdleTimeout time.Duration
	// RetryAfter is the value of the header Retry-After while the service is not
	// ready; an overloaded scorer sets its own.
	RetryAfter time.Duration
	// Limits bound one scoring request; a field that is zero has its default.
	Limits wire.Limits
	// FeedbackLimits bound one feedback request in the same way.
	FeedbackLimits feedback.Limits
	// MaxEventStreams is the maximum number of clients of GET /v1/events and
	// GET /v1/scored together; the next one gets 503.
	MaxEventStreams int
	// MaxInferStreams is the maximum number of open ModelStreamInfer calls of gRPC;
	// the next one fails with Unavailable.
	MaxInferStreams int
	// TrustedOrigins lists web origins ("https://host[:port]") whose pages may
	// post to the service. Pages of any other origin get 403; clients other than
	// browsers send no origin and are not affected.
	TrustedOrigins []string
	// Insecure admits callers on other machines without tokens. It has no effect
	// with Parts.Tokens.
	Insecure bool
	// TrustLoopback admits callers on the same machine without a token although
	// there are tokens.
	TrustLoopback bool
}

// DefaultConfig returns the default settings: 32 MiB per body, five minutes per
// request, ten seconds for its headers, and 128 KiB/s (1 Mbit/s) for its body.
func DefaultConfig() Config {
	return Config{
		MaxBody:        32 << 20,
		RequestTimeout: 5 * time.Minute,
		HeaderTimeout:  10 * time.Second,
		MinRate:        128 << 10,
		IdleTimeout:    2 * time.Minute,
		RetryAfter:     time.Second,

		MaxEventStreams: 256,
		MaxInferStreams: 4096,
	}
}

func (c Config) validate() error {
	positive := []struct {
		name  string
		value time.Duration
	}{
		{"RequestTimeout", c.RequestTimeout},
		{"HeaderTimeout", c.HeaderTimeout},
		{"IdleTimeout", c.IdleTimeout},
		{"RetryAfter", c.RetryAfter},
	}
	for _, p := range positive {
		if p.value <= 0 {
			return fmt.Errorf("api: %s is %v: give a duration above 0", p.name, p.value)
		}
	}
	for name, value := range map[string]int64{
		"MinRate": c.MinRate, "MaxEventStreams": int64(c.MaxEventStreams), "MaxInferStreams": int64(c.MaxInferStreams),
	} {
		if value <= 0 {
			return fmt.Errorf("api: %s is %d: give a number above 0", name, value)
		}
	}
	return validateMaxBody(c.MaxBody)
}

func validateMaxBody(bytes int64) error {
	if bytes <= 0 {
		return fmt.Errorf("api: MaxBody is %d: give a number of bytes above 0", bytes)
	}
	return nil
}

func (c Config) crossOrigin() (*http.CrossOriginProtection, error) {
	guard := http.NewCrossOriginProtection()
	for _, origin := range c.TrustedOrigins {
		if err := guard.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("api: TrustedOrigins: %w", err)
		}
	}
	return guard, nil
}

// ErrExposed reports that an address would be reachable from other machines without
// authentication.
var ErrExposed = errors.New("reachable from other machines without a token")

// CheckListen validates an address to listen on ("host:port"). Loopback addresses
// are always allowed; any other, including an empty host (every interface) and a
// host name, must be guarded, otherwise the error wraps [ErrExposed].
func CheckListen(addr string, guarded bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w: give HOST:PORT, for example 127.0.0.1:8080", addr, err)
	}
	if guarded || isLoopback(host) {
		return nil
	}
	return fmt.Errorf("listen address %q is %w", addr, ErrExposed)
}

// isLoopback does not resolve names: what a resolver returns now may differ when
// the listener opens.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
