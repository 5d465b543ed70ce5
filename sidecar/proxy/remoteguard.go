package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"assay/rewardmodel"
)

// Remote scores with a running service, over POST /v1/live.
type Remote struct {
	base, token string
	reasoning   rewardmodel.Reasoning
	http        *http.Client
}

// NewRemote returns a guard over the service at base, such as http://127.0.0.1:8080, with
// a token unless it is "". With scoreReasoning it also scores <think> blocks. It does not
// connect.
func NewRemote(base, token string, scoreReasoning bool) (*Remote, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("invalid address %q: use http://HOST:PORT", base)
	}
	reasoning := rewardmodel.ReasoningSkip
	if scoreReasoning {
		reasoning = rewardmodel.ReasoningScore
	}
	client := &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // it would forward the token
	}
	return &Remote{strings.TrimRight(base, "/"), token, reasoning, client}, nil
}

// Close closes idle connections.
func (r *Remote) Close() { r.http.CloseIdleConnections() }

func (r *Remote) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return nil, err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	return request, nil
}

// Ready implements [Guard]: it asks the service.
func (r *Remote) Ready(ctx context.Context) error {
	request, err := r.request(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	response, err := r.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the service at %s is not ready: status %d", r.base, response.StatusCode)
	}
	return nil
}

// The messages to a live session; see wire.DecodeLiveMessage.
type (
	liveOpen struct {
		Open struct {
			Prompt  string      `json:"prompt,omitzero"`
			Options liveOptions `json:"options"`
		} `json:"open"`
	}
	liveOptions struct {
		OffsetUnit rewardmodel.OffsetUnit `json:"offset_unit"`
		Reasoning  rewardmodel.Reasoning  `json:"reasoning"`
	}
	liveText struct {
		Text string `json:"text"`
	}
)

// liveReply is a message of a live session; see wire.AppendLiveEvent.
type liveReply struct {
	Utterance *struct {
		Start     int     `json:"start"`
		End       int     `json:"end"`
		Violation float64 `json:"violation"`
		Violating bool    `json:"violating"`
	} `json:"utterance"`
	Violation float64                `json:"violation"`
	Reward    float64                `json:"reward"`
	Compliant bool                   `json:"compliant"`
	Reset     *struct{}              `json:"reset"`
	Result    *rewardmodel.Result    `json:"result"`
	Model     *rewardmodel.ModelInfo `json:"model"`
	Error     *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Open implements [Guard].
func (r *Remote) Open(ctx context.Context, prompt string, report func(Event)) (Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	from, to := io.Pipe()
	request, err := r.request(ctx, http.MethodPost, "/v1/live", from)
	if err != nil {
		cancel()
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Accept", "application/x-ndjson")
	s := &remoteSession{body: to, cancel: cancel, report: report, ended: make(chan struct{})}
	go s.run(r.http, request)
	open := liveOpen{}
	open.Open.Prompt = prompt
	open.Open.Options = liveOptions{rewardmodel.OffsetUTF8, r.reasoning}
	if err := s.send(ctx, encode(open)); err != nil {
		s.End()
		return nil, err
	}
	return s, nil
}

// remoteSession sends the text in the body of a request, and a goroutine receives the
// events in its response.
type remoteSession struct {
	body   *io.PipeWriter
	cancel context.CancelFunc
	report func(Event)
	ended  chan struct{} // closed by run

	mu      sync.Mutex
	verdict *Verdict
	err     error
}

var errNoVerdict = errors.New("the service ended the session without a result")

func (s *remoteSession) run(client *http.Client, request *http.Request) {
	defer close(s.ended)
	err := s.receive(client, request)
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	_ = s.body.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // send fails from now on
}

func (s *remoteSession) receive(client *http.Client, request *http.Request) error {
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // what is readable of the reason
		return fmt.Errorf("the service returned %d: %s", response.StatusCode, text)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if done, err := s.reply(lines.Bytes()); done || err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), errNoVerdict)
}

// reply handles a message. done: it was the result.
func (s *remoteSession) reply(line []byte) (done bool, err error) {
	var m liveReply
	if err := json.Unmarshal(line, &m); err != nil {
		return false, fmt.Errorf("a message of the service: %w", err)
	}
	switch {
	case m.Error != nil:
		return false, fmt.Errorf("the service ended the session: %s: %s", m.Error.Code, m.Error.Message)
	case m.Result != nil && m.Model != nil:
		v := verdictOf(*m.Result, *m.Model)
		s.mu.Lock()
		s.verdict = &v
		s.mu.Unlock()
		return true, nil
	case m.Reset != nil:
		s.report(Event{Reset: true})
	case m.Utterance != nil:
		s.report(Event{
			Start: m.Utterance.Start, End: m.Utterance.End, Violation: m.Utterance.Violation, Violating: m.Utterance.Violating,
			Text: Verdict{Violation: m.Violation, Reward: m.Reward, Compliant: m.Compliant},
		})
	}
	return false, nil
}

func (s *remoteSession) send(ctx context.Context, message []byte) error {
	defer context.AfterFunc(ctx, s.cancel)()
	_, err := s.body.Write(append(message, '\n'))
	return err
}

// Feed implements [Session]. It does not wait for the scores.
func (s *remoteSession) Feed(ctx context.Context, piece string) error {
	return s.send(ctx, encode(liveText{piece}))
}

// Close implements [Session].
func (s *remoteSession) Close(ctx context.Context) (Verdict, error) {
	defer s.End()
	if err := s.send(ctx, []byte(`{"close":{}}`)); err != nil {
		return Verdict{}, err
	}
	_ = s.body.Close()
	select {
	case <-s.ended:
	case <-ctx.Done():
		return Verdict{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verdict == nil {
		return Verdict{}, s.err
	}
	return *s.verdict, nil
}

// End implements [Session].
func (s *remoteSession) End() {
	s.cancel()
	<-s.ended
}
