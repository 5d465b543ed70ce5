package assay

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client is a client of one assay service. It pools connections and is safe for
// concurrent use.
type Client struct {
	base        string // without a trailing slash
	http        *http.Client
	ownsHTTP    bool // http was created by New
	tls         *tls.Config
	token       string
	private     bool   // send the token of a private service
	dataDir     string // its data directory
	model       string
	timeout     time.Duration
	retry       Retry
	chunkItems  int
	chunkBytes  int
	concurrency int
}

// Option configures a Client.
type Option func(*Client)

// WithToken sends a token from the token file of the service. A service on the
// same machine without a token file requires none.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithDataDir sends the token of a private service on this machine (assay serve
// --private), read from its data directory. An empty dir means $ASSAY_DATA_DIR,
// or else the default of assay serve. The token is read for each request, because
// a restart of the service replaces it. It is never sent to another machine; if
// there is none, requests carry no token.
func WithDataDir(dir string) Option { return func(c *Client) { c.private, c.dataDir = true, dir } }

// WithModel pins a model for scoring, by name or version. If the service does not
// have it, scoring fails with ErrNotFound.
func WithModel(model string) Option { return func(c *Client) { c.model = model } }

// WithTimeout sets the timeout of one attempt (default 1 minute). The deadline of
// the context applies to all attempts together.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRetry replaces DefaultRetry. The zero Retry disables retries.
func WithRetry(r Retry) Option { return func(c *Client) { c.retry = r } }

// WithChunk limits the requests of ScoreAll and ScoreSeq to a number of items
// (default 64) and of bytes of JSON (default 1 MiB). A single item may exceed the
// limit of bytes.
func WithChunk(items, bytes int) Option {
	return func(c *Client) { c.chunkItems, c.chunkBytes = items, bytes }
}

// WithConcurrency limits the requests in flight of ScoreAll and ScoreSeq (default
// 4).
func WithConcurrency(n int) Option { return func(c *Client) { c.concurrency = n } }

// WithHTTPClient replaces the HTTP client, for example for TLS settings or
// tracing. Leave its Timeout 0: it would also end event streams.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http, c.ownsHTTP = h, h == nil }
}

// WithTLS sets the certificate authorities that verify an https service, and the
// client certificate, if there is one. It has no effect with WithHTTPClient.
func WithTLS(config *tls.Config) Option { return func(c *Client) { c.tls = config } }

// New returns a client of the service at address, such as
// http://127.0.0.1:8080. It validates the address and the options and does not
// connect.
func New(address string, options ...Option) (*Client, error) {
	c := &Client{
		base: strings.TrimRight(address, "/"), ownsHTTP: true,
		timeout: time.Minute, retry: DefaultRetry,
		chunkItems: 64, chunkBytes: 1 << 20, concurrency: 4,
	}
	for _, o := range options {
		o(c)
	}
	u, err := url.Parse(c.base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, &InputError{-1, "address", fmt.Sprintf("invalid address %q: use http://HOST:PORT", address)}
	}
	switch {
	case c.timeout <= 0:
		return nil, &InputError{-1, "WithTimeout", "must be greater than 0"}
	case c.chunkItems < 1 || c.chunkBytes < 1:
		return nil, &InputError{-1, "WithChunk", "both limits must be at least 1"}
	case c.concurrency < 1:
		return nil, &InputError{-1, "WithConcurrency", "must be at least 1"}
	case c.retry.Budget > 0 && (c.retry.InitialBackoff <= 0 || c.retry.MaxBackoff < c.retry.InitialBackoff):
		return nil, &InputError{-1, "WithRetry", "InitialBackoff must be greater than 0 and at most MaxBackoff"}
	}
	c.private = c.private && c.token == "" && isLoopback(u)
	if _, err := c.bearer(); err != nil {
		return nil, err
	}
	if c.ownsHTTP {
		c.http = newHTTPClient(c.tls)
	}
	return c, nil
}

// bearer returns the token for the next request, or "".
func (c *Client) bearer() (string, error) {
	if !c.private {
		return c.token, nil
	}
	token, err := privateToken(c.dataDir)
	if err != nil {
		return "", &InputError{-1, "WithDataDir", err.Error()}
	}
	return token, nil
}

// newHTTPClient returns a client that keeps an idle connection for each goroutine
// of a trainer, and does not follow redirects, which would forward the token.
func newHTTPClient(config *tls.Config) *http.Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 30 * time.Second}
	if d, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = d.Clone()
	}
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 256
	transport.IdleConnTimeout = 30 * time.Second
	if config != nil {
		transport.TLSClientConfig = config.Clone()
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes idle connections, unless WithHTTPClient provided the HTTP client.
// The next call opens new ones.
func (c *Client) Close() {
	if c.ownsHTTP {
		c.http.CloseIdleConnections()
	}
}
