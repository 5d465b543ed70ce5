// Package hub fetches a checkpoint from a Hugging Face-compatible hub into a
// folder that the rest of assay can open:
//
//	client, err := hub.New(hub.Config{Token: os.Getenv("HF_TOKEN")})
//	receipt, err := client.Pull(ctx, hub.Request{Repo: "FacebookAI/roberta-base", Dir: "models/roberta-base"})
//
// The revision is resolved to a commit first and every file is read at that
// commit. Only data is fetched: safetensors weights, the configuration, the
// tokenizer, and the model card and licence; never a pickle or code. Each file
// is verified against the hub's checksum before it gets its name, and the
// folder appears only when it is complete. A pull that was killed goes on where
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

// The kinds of failure that a caller may want to tell apart with errors.Is. The
// message around them names what is wrong and what to do.
var (
	// ErrInvalid says that a setting or a name is malformed.
	ErrInvalid = errors.New("invalid setting")
	// ErrNotFound says that the hub knows no such repository or revision.
	ErrNotFound = errors.New("not found on the hub")
	// ErrDenied says that the repository needs a token, another token, or
	// the acceptance of its licence.
	ErrDenied = errors.New("access denied by the hub")
	// ErrUnsuitable says that the repository holds nothing that may be
	// pulled, such as weights only as a pickle.
	ErrUnsuitable = errors.New("no checkpoint that can be pulled")
	// ErrOccupied says that the folder holds something else.
	ErrOccupied = errors.New("the folder is taken")
	// ErrUnsafe says that the hub asks for something that is refused, such as
	// a file outside the folder or a redirect from https to http.
	ErrUnsafe = errors.New("refused for safety")
	// ErrChecksum says that a file is not what the hub announces.
	ErrChecksum = errors.New("wrong checksum")
	// ErrUnavailable says that the hub failed as often as was tried.
	ErrUnavailable = errors.New("the hub does not answer as it should")
)

// Config says how to reach a hub. Its zero value reads the public hub without
// a token.
type Config struct {
	// Endpoint is the hub's URL; "" is DefaultEndpoint.
	Endpoint string
	// Token is sent to the endpoint's own scheme, host and port and nowhere
	// else, redirects included.
	Token string
	// Cache is the folder "hub" of a Hugging Face cache, whose blobs are
	// copied, after verification, in place of a download; "" is none.
	Cache string
	// Agent is the User-Agent; "" is "assay".
	Agent string
	// Attempts is how often a request may fail in a row, without a byte in
	// between, before the pull fails; 0 is 6.
	Attempts int
	// Stall is how long the hub may send nothing; 0 is one minute.
	Stall time.Duration
}

// Client reads from one hub. It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	http     *http.Client
	cache    string
	attempts int
	stall    time.Duration
	// Seams of the tests.
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
		return nil, fmt.Errorf("the token has characters that no token has; look at HF_TOKEN: %w", ErrInvalid)
	}
	base := http.DefaultTransport
	if t, ok := base.(*http.Transport); ok {
		base = t.Clone() // so that Close ends our connections alone
	}
	return &Client{
		endpoint: endpoint,
		http: &http.Client{
			Transport:     &transport{next: base, endpoint: endpoint, token: cfg.Token, agent: cmp.Or(cfg.Agent, "assay")},
			CheckRedirect: checkRedirect,
		},
		cache:    cfg.Cache,
		attempts: cmp.Or(cfg.Attempts, 6),
		stall:    cmp.Or(cfg.Stall, time.Minute),
		sleep:    sleep,
		write:    (*os.File).Write,
	}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func parseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("endpoint %.200q is no URL such as %s: %w", text, DefaultEndpoint, ErrInvalid)
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

// maxWait is the longest Retry-After that is waited for.
const maxWait = 5 * time.Minute

// transientError is a failure that may pass.
type transientError struct {
	error
	after time.Duration // how long the hub asks to wait; 0 when it does not say
}

func (e *transientError) Unwrap() error { return e.error }

// retry calls try until it succeeds, fails for good, or has failed without
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
		var passing *transientError
		if !errors.As(err, &passing) {
			return err
		}
		if progress {
			failures = 0
		}
		failures++
		switch {
		case failures >= c.attempts:
			return fmt.Errorf("%w (tried %d times): %w", passing.error, failures, ErrUnavailable)
		case passing.after > maxWait:
			return fmt.Errorf("%w, and asks to wait for %s; try again then: %w", passing.error, passing.after, ErrUnavailable)
		}
		if err := c.sleep(ctx, cmp.Or(passing.after, backoff(failures))); err != nil {
			return err
		}
	}
}

// backoff is one second after the first failure and doubles up to half a
// minute, less up to a quarter, so that clients do not come back at once.
func backoff(failures int) time.Duration {
	d := min(time.Second<<min(failures-1, 10), 30*time.Second)
	return d - rand.N(d/4)
}
