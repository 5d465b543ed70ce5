package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
)

// Config holds the settings of the HTTP server. [DefaultConfig] gives every
// field a working value.
type Config struct {
	// MaxBody limits the body of a request in bytes, after decompression
	// (flag --max-body), and a message of gRPC. Larger ones answer 413.
	MaxBody int64
	// RequestTimeout is the longest that a request may take, from its headers
	// to its answer (flag --request-timeout). A client may ask for less with
	// the header X-Request-Timeout, never for more. A stream of gRPC that brings no
	// request for as long ends, too.
	RequestTimeout time.Duration
	// HeaderTimeout is the longest that the headers of a request may take.
	HeaderTimeout time.Duration
	// MinRate is how many bytes per second a body must make on average, either
	// way, once HeaderTimeout has passed. A client that is slower is cut off:
	// its request would keep memory from others.
	MinRate int64
	// IdleTimeout closes a keep-alive connection that is not used.
	IdleTimeout time.Duration
	// RetryAfter is what a client is told to wait when the service is not
	// ready; an overloaded scorer says itself how long.
	RetryAfter time.Duration
	// Limits bound what one scoring request may hold (flag --max-responses); a
	// field that is zero has its default.
	Limits rewardmodel.Limits
	// FeedbackLimits bound one feedback request in the same way.
	FeedbackLimits feedback.Limits
	// MaxEventStreams is how many clients may follow GET /v1/events at a time; the
	// next one is answered 503.
	MaxEventStreams int
	// MaxInferStreams is how many ModelStreamInfer calls of gRPC may be open at a
	// time; the next one fails with Unavailable.
	MaxInferStreams int
	// TrustedOrigins lists web origins ("https://host[:port]") whose pages may
	// post to the service. Pages of any other origin are refused with 403;
	// clients that are not browsers send no origin and are not concerned.
	TrustedOrigins []string
	// Insecure lets callers of other machines in although there are no
	// tokens (flag --insecure). With Parts.Tokens it changes nothing.
	Insecure bool
	// TrustLoopback lets callers on the same machine in without a token although
	// there are tokens (flag --trust-loopback).
	TrustLoopback bool
}

// DefaultConfig returns the settings that the command line starts from:
// 32 MiB of body, five minutes per request, ten seconds for its headers, and
// 128 KiB/s (1 Mbit/s) for its body.
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
		{"RequestTimeout (--request-timeout)", c.RequestTimeout},
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
		"MinRate": c.MinRate, "MaxBody (--max-body)": c.MaxBody,
		"MaxEventStreams": int64(c.MaxEventStreams), "MaxInferStreams": int64(c.MaxInferStreams),
	} {
		if value <= 0 {
			return fmt.Errorf("api: %s is %d: give a number above 0", name, value)
		}
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

// ErrExposed tells that an address would be reachable from other machines
// while nothing checks who calls.
var ErrExposed = errors.New("reachable from other machines without a token")

// CheckListen tells whether the service may listen on addr ("host:port").
// Loopback addresses are always fine; any other, including an empty host
// (every interface) and a host name, needs to be guarded by tokens or to be
// accepted as it is, else the error wraps [ErrExposed] and names the flags.
func CheckListen(addr string, guarded bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w: give HOST:PORT, for example 127.0.0.1:8080", addr, err)
	}
	if guarded || isLoopback(host) {
		return nil
	}
	return fmt.Errorf("listen address %q is %w: listen on 127.0.0.1, have tokens checked (--token-file for HTTP, --nats-token for NATS, --private for both), or accept it with --insecure", addr, ErrExposed)
}

// isLoopback does not resolve names: what a resolver says now need not hold
// when the listener opens.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
