// Package judge asks a chat model whether responses are compliant: the rows of
// language models in the BFGPU paper (section "Compared with LLMs"). It works
// with any server that implements OpenAI's chat completions:
//
//	j, err := judge.New(judge.Config{BaseURL: "http://localhost:11434/v1", Model: "qwen3"})
//	verdicts, err := j.Judge(ctx, texts)
//	scores, unreadable, err := judge.Predictions(verdicts, labels)
//
// The model gets one request per text, with the paper's prompt and at
// temperature 0, and must reply with one word. Any other reply is reported as
// unreadable.
package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"golang.org/x/sync/errgroup"
)

// DefaultPrompt is the system prompt of the paper, verbatim. It asks for the
// sentiment because the paper's bags are made of reviews.
const DefaultPrompt = "You are a sentiment classification model; output 'positive' if there is no negative sentiment in the paragraph, " +
	"and 'negative' if negative sentiment exists. You must only output 'positive' or 'negative' without any additional content."

// ErrInvalid is wrapped by errors about a setting.
var ErrInvalid = errors.New("judge: invalid setting")

// ErrAPI is wrapped by errors that a server returns, and by those of requests
// without a reply.
var ErrAPI = errors.New("judge: no verdict from the server")

// Config specifies the server, the model and the requests. Zero values mean the defaults below.
type Config struct {
	// BaseURL is the URL without /chat/completions, such as
	// https://api.openai.com/v1. Required.
	BaseURL string
	// APIKey is sent as a bearer token; "" sends none, as for local servers.
	// Environment variables are ignored.
	APIKey string
	// Model is the name of the model on the server. Required.
	Model string
	// Prompt is the system prompt; "" is DefaultPrompt. It must ask for
	// "positive" if a response is compliant and "negative" otherwise.
	Prompt string
	// Reasoning is for reasoning models: the token limit is larger and sent as
	// max_completion_tokens, and the temperature is omitted because such models
	// reject it.
	Reasoning bool
	// MaxTokens limits the reply; 0 is 16, or 4096 with Reasoning.
	MaxTokens int
	// Concurrency is the number of requests in flight; 0 is 8.
	Concurrency int
	// Timeout bounds each attempt; 0 is one minute.
	Timeout time.Duration
	// Retries is the maximum number of retries of a request after a 408, 409,
	// 429 or 5xx, a timeout or a lost connection; 0 is 5, negative is none. A
	// Retry-After is honored up to two minutes.
	Retries int
	// Report, if not nil, is called after each verdict with the number of
	// verdicts so far; calls do not overlap.
	Report func(done, total int)
}

// Judge asks one model. It is safe for concurrent use.
type Judge struct {
	cfg    Config
	host   string
	server openai.ChatCompletionService
}

// New returns a judge without sending a request. The error wraps ErrInvalid and
// names the setting.
func New(cfg Config) (*Judge, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("%w: invalid base URL %.200q; use one such as http://localhost:8000/v1", ErrInvalid, cfg.BaseURL)
	}
	if base.User != nil {
		return nil, fmt.Errorf("%w: the base URL at %s contains a user; pass the key as the API key", ErrInvalid, base.Host)
	}
	if cfg.Model == "" {
		return nil, fmt.Errorf("%w: model is empty; use one that %s serves", ErrInvalid, base.Host)
	}
	if cfg.Concurrency < 0 || cfg.Timeout < 0 || cfg.MaxTokens < 0 {
		return nil, fmt.Errorf("%w: concurrency %d, timeout %s and max tokens %d must not be negative", ErrInvalid, cfg.Concurrency, cfg.Timeout, cfg.MaxTokens)
	}
	cfg.Prompt = cmp.Or(cfg.Prompt, DefaultPrompt)
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 8)
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	cfg.Retries = max(cmp.Or(cfg.Retries, 5), 0)
	if cfg.MaxTokens == 0 {
		cfg.MaxTokens = 16
		if cfg.Reasoning {
			cfg.MaxTokens = 4096
		}
	}
	transport := http.DefaultTransport
	if t, ok := transport.(*http.Transport); ok {
		t = t.Clone() // the limit is that of this judge
		t.MaxIdleConnsPerHost = cfg.Concurrency
		transport = t
	}
	// The library retries after a timeout of the client, as after a lost
	// connection; its own timeout would end the request.
	client := &http.Client{Transport: transport, Timeout: cfg.Timeout, CheckRedirect: refuseRedirect}
	options := []option.RequestOption{option.WithBaseURL(cfg.BaseURL), option.WithHTTPClient(client), option.WithMaxRetries(cfg.Retries)}
	if cfg.APIKey != "" {
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	return &Judge{cfg: cfg, host: base.Host, server: openai.NewChatCompletionService(options...)}, nil
}

// errRedirect reports a server that redirects.
var errRedirect = errors.New("it redirects")

// refuseRedirect keeps texts on the server that the user chose: a 307 or 308 would send
// them to any other, also without TLS.
func refuseRedirect(req *http.Request, _ []*http.Request) error {
	return fmt.Errorf("%w to %.20s://%.200s, which is not followed; set the base URL to the server itself", errRedirect, req.URL.Scheme, req.URL.Host)
}

// Judge returns a verdict for each text, in order. It stops at the first
// failure: the error then wraps ErrAPI or is that of ctx, and texts without a
// verdict have Decision "".
func (j *Judge) Judge(ctx context.Context, texts []string) ([]Verdict, error) {
	verdicts := make([]Verdict, len(texts))
	var (
		mu   sync.Mutex
		done int
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(j.cfg.Concurrency)
	for i, text := range texts {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			verdict, err := j.ask(ctx, text)
			if err != nil {
				return fmt.Errorf("text %d of %d: %w", i+1, len(texts), err)
			}
			verdicts[i] = verdict
			if j.cfg.Report != nil {
				mu.Lock()
				defer mu.Unlock()
				done++
				j.cfg.Report(done, len(texts))
			}
			return nil
		})
	}
	err := group.Wait()
	if err == nil && slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Decision == "" }) {
		err = context.Cause(ctx) // before the first request
	}
	return verdicts, err
}

// ask sends one request.
func (j *Judge) ask(ctx context.Context, text string) (Verdict, error) {
	params := openai.ChatCompletionNewParams{
		Model:    j.cfg.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(j.cfg.Prompt), openai.UserMessage(text)},
	}
	if j.cfg.Reasoning {
		params.MaxCompletionTokens = openai.Int(int64(j.cfg.MaxTokens))
	} else {
		params.MaxTokens = openai.Int(int64(j.cfg.MaxTokens))
		params.Temperature = openai.Float(0)
	}
	var response *http.Response
	completion, err := j.server.New(ctx, params, option.WithResponseInto(&response))
	if err != nil {
		return j.failed(ctx, response, err)
	}
	if len(completion.Choices) == 0 {
		return Verdict{}, fmt.Errorf("%w: the reply of %s has no choices; is it a chat completions server? model %q", ErrAPI, j.host, j.cfg.Model)
	}
	choice := completion.Choices[0]
	verdict := Read(choice.Message.Content)
	verdict.Finish = choice.FinishReason
	if verdict.Decision == Unreadable && choice.Message.Refusal != "" {
		verdict.Reply, verdict.Finish = choice.Message.Refusal, "refusal"
	}
	return verdict, nil
}

// contentFilter is the error code of servers that reject a text, and the finish
// reason of servers that truncate a reply for its content.
const contentFilter = "content_filter"

// failed returns the error of a request without a completion. A text that the
// server's content filter rejects is an unreadable verdict.
func (j *Judge) failed(ctx context.Context, response *http.Response, err error) (Verdict, error) {
	if ctx.Err() != nil {
		return Verdict{}, context.Cause(ctx)
	}
	var api *openai.Error
	if errors.As(err, &api) && api.Code == contentFilter {
		return Verdict{Decision: Unreadable, Reply: api.Message, Finish: contentFilter}, nil
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // without the URL, which may contain a key
	}
	hint := ""
	switch {
	case errors.Is(err, errRedirect):
		return Verdict{}, fmt.Errorf("%w: %s (model %q): %w", ErrAPI, j.host, j.cfg.Model, err)
	case response == nil:
		return Verdict{}, fmt.Errorf("%w: %s (model %q, %d attempts): %w", ErrAPI, j.host, j.cfg.Model, j.cfg.Retries+1, err)
	case response.StatusCode == http.StatusNotFound && !strings.HasSuffix(strings.TrimRight(j.cfg.BaseURL, "/"), "/v1"):
		hint = "; does the base URL lack /v1?"
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		hint = "; check the API key"
	case response.StatusCode == http.StatusBadRequest && !j.cfg.Reasoning:
		hint = "; a reasoning model may reject temperature or max_tokens: set Reasoning"
	}
	what := "an unreadable reply"
	if api != nil {
		what = cmp.Or(strings.TrimSpace(api.Code+" "+api.Message), "no reason")
	} else if response.StatusCode < http.StatusBadRequest {
		what = fmt.Sprintf("%s (%v)", what, err)
	}
	if j.cfg.APIKey != "" {
		what = strings.ReplaceAll(what, j.cfg.APIKey, "<key>")
	}
	return Verdict{}, fmt.Errorf("%w: %s returned %s for model %q: %.300s%s", ErrAPI, j.host, response.Status, j.cfg.Model, what, hint)
}
