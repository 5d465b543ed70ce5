package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"assay/rewardmodel"
)

// Mode is what the proxy does with what it scores.
type Mode string

const (
	// Observe forwards everything immediately and reports the verdict at the end.
	Observe Mode = "observe"
	// Hold releases an utterance after its verdict and withholds the text from the
	// first violating one on. The upstream completes the response, which is scored.
	Hold Mode = "hold"
	// Stop is Hold that ends the choice at the first violating utterance, and cancels
	// the upstream when all choices have ended.
	Stop Mode = "stop"
	// Redact is Hold that replaces violating utterances and continues.
	Redact Mode = "redact"
)

// Modes are all modes, the default first.
func Modes() []Mode { return []Mode{Observe, Hold, Stop, Redact} }

// Enforces reports whether the mode keeps text from the client.
func (m Mode) Enforces() bool { return m != Observe }

// Config configures a proxy. Start from DefaultConfig.
type Config struct {
	Upstream *url.URL // the base of every path, without /v1
	// Transport sends the requests, wherever it wants; nil: over HTTP to Upstream.
	Transport http.RoundTripper
	Mode      Mode
	// Redaction replaces violating utterances in mode redact.
	Redaction string
	// FailOpen releases text without a verdict when scoring fails, in the modes that
	// enforce. Without it, the response ends with an error.
	FailOpen bool
	// ScoreReasoning also scores what the upstream marks as reasoning, which is
	// otherwise forwarded without a verdict.
	ScoreReasoning bool
	// GuardedOnly refuses requests to other endpoints with a body, and those that read
	// what was stored: what they return would not be scored.
	GuardedOnly bool
	// VerdictTimeout bounds each wait for the guard. In mode observe that is the end of
	// a response, which then has no verdict; in the others scoring then has failed.
	VerdictTimeout time.Duration
	// UpstreamTimeout bounds how long the upstream may send nothing.
	UpstreamTimeout time.Duration
	// Publish receives the verdict of every guarded response; nil: nothing does.
	Publish     Publisher
	MaxRequests int   // guarded at the same time; more get 503
	MaxBody     int64 // bytes of a guarded request, of a response that is not streamed, and of an event
	MaxHeld     int   // bytes of a text that wait for a verdict; beyond it, scoring has failed
}

// Reasoning is what the guard does with <think> blocks. In the modes that enforce, text is
// forwarded once it is scored, so a closing tag without an opening one must not make it
// reasoning afterwards, nor may a prompt that ends with an opening tag, which clients write.
func (c Config) Reasoning() rewardmodel.Reasoning {
	switch {
	case c.ScoreReasoning:
		return rewardmodel.ReasoningScore
	case c.Mode.Enforces():
		return rewardmodel.ReasoningSkipOpened
	}
	return rewardmodel.ReasoningSkip
}

// DefaultConfig has no upstream.
func DefaultConfig() Config {
	return Config{
		Mode: Observe, Redaction: "[removed]",
		VerdictTimeout: 10 * time.Second, UpstreamTimeout: 10 * time.Minute,
		MaxRequests: 256, MaxBody: 32 << 20, MaxHeld: 1 << 20,
	}
}

// Check reports invalid settings, by the names of their flags.
func (c Config) Check() error {
	known := false
	for _, m := range Modes() {
		known = known || m == c.Mode
	}
	if err := c.checkUpstream(); err != nil {
		return err
	}
	switch {
	case !known:
		return fmt.Errorf("--mode is %q; use one of %v", c.Mode, Modes())
	case c.VerdictTimeout < 0 || c.VerdictTimeout == 0 && c.Mode.Enforces():
		return fmt.Errorf("--verdict-timeout is %v; give a duration above 0", c.VerdictTimeout)
	case c.UpstreamTimeout <= 0:
		return fmt.Errorf("--upstream-timeout is %v; give a duration above 0", c.UpstreamTimeout)
	case c.MaxRequests < 1:
		return fmt.Errorf("--max-requests is %d; give at least 1", c.MaxRequests)
	case c.MaxBody < 1:
		return fmt.Errorf("--max-body is %d; give a number of bytes above 0", c.MaxBody)
	case c.MaxHeld < 1:
		return fmt.Errorf("--max-held is %d; give a number of bytes above 0", c.MaxHeld)
	}
	return nil
}

func (c Config) checkUpstream() error {
	switch u := c.Upstream; {
	case c.Transport != nil:
		return nil
	case u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("--upstream: give the URL of the inference server, for example http://127.0.0.1:8000")
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("--upstream: give a URL without query, fragment and credentials")
	}
	return nil
}
