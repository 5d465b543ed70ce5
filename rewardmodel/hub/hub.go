// Package hub fetches a checkpoint from a Hugging Face-compatible hub into a
// directory that the rest of assay can open:
//
//	client, err := hub.New(hub.Config{Token: os.Getenv("HF_TOKEN")})
//	receipt, err := client.Pull(ctx, hub.Request{Repo: "FacebookAI/roberta-base", Dir: "models/roberta-base"})
//
// The revision is resolved to a commit first and every file is read at that
// commit. Only data is fetched: safetensors weights, the configuration, the
// tokenizer, and the model card and license; never a pickle or code. Each file
// is verified against the hub's checksum before it gets its final name, and the
// directory appears only when it is complete. A pull that was killed resumes where
// it stopped.
//
// The protocol is that of https://huggingface.co/docs/hub/api: the model
// information and the tree of a revision as JSON, and /resolve/ for files,
// which may redirect to another host.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// DefaultEndpoint is the public hub.
const DefaultEndpoint = "https://huggingface.co"

// The kinds of failure that a caller can distinguish with errors.Is. The wrapping
// message describes the problem and the fix.
var (
	// ErrInvalid reports that a setting or a name is malformed.
	ErrInvalid = errors.New("invalid setting")
	// ErrNotFound reports that the hub has no such repository or revision.
	ErrNotFound = errors.New("not found on the hub")
	// ErrDenied reports that the repository requires a token, another token, or
	// the acceptance of its license.
	ErrDenied = errors.New("access denied by the hub")
	// ErrUnsuitable reports that the repository contains nothing that may be
	// pulled, such as weights only as a pickle.
	ErrUnsuitable = errors.New("no checkpoint that can be pulled")
	// ErrOccupied reports that the directory contains something else.
	ErrOccupied = errors.New("the directory is in use")
	// ErrUnsafe reports that the hub requests something that is refused, such as
	// a file outside the directory, or a redirect from https to http or from a public
	// address to an internal one.
	ErrUnsafe = errors.New("refused for safety")
	// ErrChecksum reports that a file differs from the hub's listing.
	ErrChecksum = errors.New("wrong checksum")
	// ErrUnavailable reports that the hub failed on every attempt or returned an
	// invalid response.
	ErrUnavailable = errors.New("the hub is unavailable or returned an invalid response")
)

// Config configures the connection to a hub. Its zero value reads the public hub
// without a token.
type Config struct {
	// Endpoint is the hub's URL; "" is DefaultEndpoint.
	Endpoint string
	// Token is sent only to the endpoint's own scheme, host and port, never to
	// the target of a redirect elsewhere.
	Token string
	// Cache is the directory "hub" of a Hugging Face cache, whose blobs are
	// copied, after verification, instead of a download; "" is none.
	Cache string
	// Agent is the User-Agent; "" is "assay".
	Agent string
	// Attempts is the number of consecutive failures of a request, without
	// receiving a byte, after which the pull fails; 0 is 6.
	Attempts int
	// Stall is the timeout without receiving a byte; 0 is one minute.
	Stall time.Duration
}

// Client reads from one hub. It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	http     *http.Client
	cache    string
	attempts int
	stall    time.Duration
	guard    *dialGuard
	// Tests replace these.
	sleep func(context.Context, time.Duration) error
	write func(*os.File, []byte) (int, error)
}

// New returns a client. The error wraps ErrInvalid.
func New(cfg Config) (*Client, error) {
	endpoint, err := parseEndpoint(cmp.Or(cfg.Endpoint, DefaultEndpoint))
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("the token contains invalid characters; check HF_TOKEN: %w", ErrInvalid)
	}
	guard := &dialGuard{internal: isInternal}
	base := http.DefaultTransport
	if t, ok := base.(*http.Transport); ok {
		t = t.Clone() // so that Close closes only this client's connections
		guard.install(t)
		base = t
	}
	return &Client{
		endpoint: endpoint,
		http: &http.Client{
			Transport:     &transport{next: base, endpoint: endpoint, token: cfg.Token, agent: cmp.Or(cfg.Agent, "assay")},
			CheckRedirect: checkRedirect,
		},
		guard:    guard,
		cache:    cfg.Cache,
		attempts: cmp.Or(cfg.Attempts, 6),
		stall:    cmp.Or(cfg.Stall, time.Minute),
		sleep:    sleep,
		write:    (*os.File).Write,
	}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func parseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("endpoint %.200q is not a URL such as %s: %w", text, DefaultEndpoint, ErrInvalid)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("endpoint of host %s must be a plain URL, without a user, a password or a query: %w", u.Host, ErrInvalid)
	}
	return u, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxWait is the maximum Retry-After that a pull waits for.
const maxWait = 5 * time.Minute

// transientError is a retryable failure.
type transientError struct {
	error
	after time.Duration // Retry-After of the hub; 0 without one
}

func (e *transientError) Unwrap() error { return e.error }

// retry calls try until it succeeds, fails permanently, or has failed without
// progress as often as allowed.
func (c *Client) retry(ctx context.Context, try func(context.Context) (progress bool, err error)) error {
	failures := 0
	for {
		progress, err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var transient *transientError
		if !errors.As(err, &transient) {
			return err
		}
		if progress {
			failures = 0
		}
		failures++
		switch {
		case failures >= c.attempts:
			return fmt.Errorf("%w (tried %d times): %w", transient.error, failures, ErrUnavailable)
		case transient.after > maxWait:
			return fmt.Errorf("%w, and requests a wait of %s; try again then: %w", transient.error, transient.after, ErrUnavailable)
		}
		if err := c.sleep(ctx, cmp.Or(transient.after, backoff(failures))); err != nil {
			return err
		}
	}
}

// backoff is one second after the first failure and doubles up to 30 seconds, less
// a jitter of up to a quarter, so that clients do not retry simultaneously.
func backoff(failures int) time.Duration {
	d := min(time.Second<<min(failures-1, 10), 30*time.Second)
	return d - rand.N(d/4)
}
