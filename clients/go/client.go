package assay

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client talks to one assay service. It may be used by many goroutines at
// once; connections are kept and reused.
type Client struct {
	base        string // without a slash at its end
	http        *http.Client
	own         bool // http is ours
	token       string
	private     bool   // take the token of a private service
	dataDir     string // where it is
	model       string
	timeout     time.Duration
	retry       Retry
	chunkItems  int
	chunkBytes  int
	concurrency int
}

// Option changes how a client works.
type Option func(*Client)

// WithToken sends a token of the service's token file; a service without tokens
// on the same machine needs none.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithDataDir sends the token of a private service on this machine (assay serve
// --private), which is in its data directory. An empty dir stands for
// $ASSAY_DATA_DIR, and without that for the default of assay serve. A service on
// another machine never sees the token; without one, none is sent. It is read for
// each request: the service has another one after a restart.
func WithDataDir(dir string) Option { return func(c *Client) { c.private, c.dataDir = true, dir } }

// WithModel pins a model by name or version for scores that name none
// themselves: another one is an error of kind ErrNotFound.
func WithModel(model string) Option { return func(c *Client) { c.model = model } }

// WithTimeout is the longest that one attempt may take (1 minute). Deadlines of
// the context hold for all attempts together.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRetry replaces DefaultRetry; the zero Retry never tries again.
func WithRetry(r Retry) Option { return func(c *Client) { c.retry = r } }

// WithChunk is how much of a bulk goes into one request: at most items (64)
// and, but for a single item, at most bytes of JSON (1 MiB).
func WithChunk(items, bytes int) Option {
	return func(c *Client) { c.chunkItems, c.chunkBytes = items, bytes }
}

// WithConcurrency is how many requests of one bulk are under way at once (4).
func WithConcurrency(n int) Option { return func(c *Client) { c.concurrency = n } }

// WithHTTPClient replaces the HTTP client, for certificates or tracing. Its
// Timeout would also end streams of events: leave it 0.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http, c.own = h, h == nil }
}

// New returns a client of the service at address, such as
// http://127.0.0.1:8080. It fails on an address or an option that cannot be;
// nothing is connected yet.
func New(address string, options ...Option) (*Client, error) {
	c := &Client{
		base: strings.TrimRight(address, "/"), own: true,
		timeout: time.Minute, retry: DefaultRetry,
		chunkItems: 64, chunkBytes: 1 << 20, concurrency: 4,
	}
	for _, o := range options {
		o(c)
	}
	u, err := url.Parse(c.base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, &InputError{-1, "address", fmt.Sprintf("%q is none; give http://HOST:PORT", address)}
	}
	switch {
	case c.timeout <= 0:
		return nil, &InputError{-1, "WithTimeout", "give more than 0"}
	case c.chunkItems < 1 || c.chunkBytes < 1:
		return nil, &InputError{-1, "WithChunk", "give at least 1 of each"}
	case c.concurrency < 1:
		return nil, &InputError{-1, "WithConcurrency", "give at least 1"}
	case c.retry.Budget > 0 && (c.retry.First <= 0 || c.retry.Most < c.retry.First):
		return nil, &InputError{-1, "WithRetry", "give a First above 0 and a Most that is not below it"}
	}
	c.private = c.private && c.token == "" && onThisMachine(u)
	if _, err := c.bearer(); err != nil {
		return nil, err
	}
	if c.own {
		c.http = ownHTTP()
	}
	return c, nil
}

// bearer is the token of the next request, "" for none.
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

// ownHTTP keeps as many connections as goroutines of a trainer may use, and
// shows redirects instead of following them with a token.
func ownHTTP() *http.Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 30 * time.Second}
	if d, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = d.Clone()
	}
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 256
	transport.IdleConnTimeout = 30 * time.Second
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes the idle connections of the client's own HTTP client; the next
// call opens new ones.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}
