package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// transport adds the token to requests to the endpoint itself. No request has it
// before, so no redirect can forward it.
type transport struct {
	next     http.RoundTripper
	endpoint *url.URL
	token    string
	agent    string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", t.agent)
	// With compression, neither ranges nor checksums would match.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Del("Referer") // a redirect's own address may be secret
	if t.token != "" && sameOrigin(req.URL, t.endpoint) {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.next.RoundTrip(markProxied(req, t.next))
}

// CloseIdleConnections makes http.Client.CloseIdleConnections work.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host) }

// checkRedirect allows redirects to other hosts, because a hub stores its files on
// another, but not from https to another scheme.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if req.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https" {
		return fmt.Errorf("redirect from https to %s://%s: %w", req.URL.Scheme, req.URL.Host, ErrUnsafe)
	}
	if len(via) >= 10 {
		return fmt.Errorf("%d redirects in a row, the last to %s: %w", len(via), req.URL.Host, ErrUnavailable)
	}
	return nil
}

var errStalled = errors.New("timeout without receiving a byte")

// watch returns a context that is canceled when touch is not called within the
// stall timeout.
func (c *Client) watch(ctx context.Context) (watched context.Context, touch, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.stall, func() {
		cancel(fmt.Errorf("%w (%s)", errStalled, c.stall))
	})
	return watched, func() { timer.Reset(c.stall) }, func() { timer.Stop(); cancel(nil) }
}

// get sends one request. The response is a 200, 206 or 416, and the caller closes
// its body; every other status is an error.
func (c *Client) get(ctx context.Context, repo string, u *url.URL, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, failed(ctx, u, err)
	}
	switch res.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		return res, nil
	}
	defer res.Body.Close()
	return nil, c.refused(repo, res)
}

// failed describes a failed request or an incomplete body. A URL would disclose the
// signature of a redirect, so only hosts are named.
func failed(ctx context.Context, u *url.URL, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return &transientError{error: fmt.Errorf("%s: %w", u.Host, cause)}
	}
	host := u.Host
	var of *url.Error
	if errors.As(err, &of) {
		if at, parsed := url.Parse(of.URL); parsed == nil {
			host = cmp.Or(at.Host, host)
		}
		err = of.Err
	}
	err = fmt.Errorf("%s: %w", host, err)
	var (
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, ErrUnsafe), errors.Is(err, ErrUnavailable), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("%w; is this machine online? another hub can be set as the endpoint (HF_ENDPOINT): %w", err, ErrUnavailable)
	case errors.As(err, &certificate):
		return fmt.Errorf("%w: %w", err, ErrUnsafe)
	}
	return &transientError{error: err}
}

// refused describes an unsuccessful response.
func (c *Client) refused(repo string, res *http.Response) error {
	// A header of the hub distinguishes what the status does not: a repository
	// that does not exist is a 401 for a client without a token.
	code := res.Header.Get("X-Error-Code")
	at := res.Request.URL
	page := c.endpoint.JoinPath(repo).String()
	failure := fmt.Errorf("%s: %s returned %s", repo, at.Host, res.Status)
	status := res.StatusCode
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500,
		!sameOrigin(at, c.endpoint): // an expired URL; the next attempt gets a new one
		return &transientError{error: failure, after: retryAfter(res.Header, time.Now())}
	case code == "GatedRepo":
		return fmt.Errorf("%w: the repository is gated; accept its license at %s, then set HF_TOKEN to a token of that account (%s/settings/tokens): %w",
			failure, page, c.endpoint, ErrDenied)
	case code == "RevisionNotFound":
		return fmt.Errorf("%w: no such branch, tag or commit; %s/commits/main lists commits: %w", failure, page, ErrNotFound)
	case code == "EntryNotFound":
		return fmt.Errorf("%w for a file that it lists: %w", failure, ErrUnavailable)
	case code == "RepoNotFound", status == http.StatusNotFound:
		return fmt.Errorf("%w: there is no such repository, or it is private and HF_TOKEN is not set to a token that may read it; look at %s: %w",
			failure, page, ErrNotFound)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w: HF_TOKEN must be a token that may read it (%s/settings/tokens), of an account that accepted its license at %s; or there is no such repository: %w",
			failure, c.endpoint, page, ErrDenied)
	}
	return fmt.Errorf("%w: %w", failure, ErrUnavailable)
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, 0)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// touching is a reader that calls touch whenever bytes arrive.
type touching struct {
	io.Reader
	touch func()
}

func (t touching) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.touch()
	}
	return n, err
}

// getAll reads a response body of at most limit bytes.
func (c *Client) getAll(ctx context.Context, repo string, u *url.URL, limit int64) (body []byte, header http.Header, err error) {
	err = c.retry(ctx, func(ctx context.Context) (bool, error) {
		ctx, touch, stop := c.watch(ctx)
		defer stop()
		res, err := c.get(ctx, repo, u, http.Header{"Accept": {"application/json"}})
		if err != nil {
			return false, err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return false, fmt.Errorf("%s returned %s: %w", u.Host, res.Status, ErrUnavailable)
		}
		if body, err = io.ReadAll(io.LimitReader(touching{res.Body, touch}, limit+1)); err != nil {
			return false, failed(ctx, u, err)
		}
		if int64(len(body)) > limit {
			return false, fmt.Errorf("%s returned more than %d bytes: %w", u.Host, limit, ErrUnavailable)
		}
		header = res.Header
		return false, nil
	})
	return body, header, err
}
