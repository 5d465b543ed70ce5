package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/internal/trace"
	"assay/rewardmodel/batching"
)

// ScorerConfig configures a Scorer. A zero field has the default stated in its
// comment, except where zero has a meaning.
type ScorerConfig struct {
	Name    string // of the model, in responses; "assay"
	Version string // of the checkpoint, in responses and metrics; required
	// Numerics identifies the arithmetic of the model, in responses; "": unknown.
	Numerics string

	// Aspects are the rules that the model scores, in the order of its margins; one
	// named DefaultAspect with the default threshold.
	Aspects []Aspect
	// Combination is how they become one reward, unless a request names another;
	// CombineMin.
	Combination Combination

	MaxLength int // tokens of a sequence, special ones included; 512
	// ContextTokens is the maximum length of what the model reads of the prompt,
	// special tokens included; 0: it does not read prompts.
	ContextTokens int
	// WholeCharacters is the maximum length of a text of several utterances that is also scored as a whole, in code points:
	// if that has a larger violation than each of them, the most anomalous utterance gets it. 0: none is.
	WholeCharacters int
	MaxInstances    int // instances of a response that are scored; 4096
	// MaxRequestInstances is the maximum number of instances of all responses of a
	// request, above which it is rejected; DefaultMaxInstances.
	MaxRequestInstances int
	EmptyReward         float64 // compliance of an empty response, in [0,1]; 0
	// PolicyTokenizers are the tokenizers that Options.Tokenizer can select, in
	// addition to that of the model, which has the name or the version of the model.
	PolicyTokenizers map[string]PolicyTokenizer
	CacheBytes       int64 // bound of the instance cache; 0: no cache
	// Observer receives what was scored; nil: nobody does.
	Observer Observer

	MaxBatchTokens int // tokens of a batch, unless one sequence is longer; 1024
	MaxQueueTokens int // tokens that may be queued for the model; 1 Mi
	// MaxQueueTime is the maximum time that the queued tokens may take to compute
	// at the measured throughput. Set it to the longest timeout of a caller;
	// 0: no such limit.
	MaxQueueTime time.Duration
}

// The defaults of a ScorerConfig.
const (
	DefaultScoredInstances = 4096
	DefaultMaxBatchTokens  = 1024
	DefaultMaxQueueTokens  = 1 << 20
)

func (c ScorerConfig) withDefaults() ScorerConfig {
	setDefault(&c.Name, "assay")
	setDefault(&c.Combination, CombineMin)
	setDefault(&c.MaxLength, 512)
	setDefault(&c.MaxInstances, DefaultScoredInstances)
	setDefault(&c.MaxRequestInstances, DefaultMaxInstances)
	setDefault(&c.MaxBatchTokens, DefaultMaxBatchTokens)
	setDefault(&c.MaxQueueTokens, DefaultMaxQueueTokens)
	if len(c.Aspects) == 0 {
		c.Aspects = []Aspect{{Name: DefaultAspect, Weight: 1}}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c ScorerConfig) validate(special int) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Version != "", "Version is empty; name the checkpoint's version")
	if err := validateAspects(c.Aspects); err != nil {
		errs = append(errs, err)
	}
	check(slices.Contains(Combinations(), c.Combination), "Combination is %q; use one of %s", c.Combination, join(Combinations()))
	check(c.ContextTokens == 0 || c.ContextTokens > special, "ContextTokens is %d; it must be above the %d special tokens, or 0", c.ContextTokens, special)
	for name, t := range c.PolicyTokenizers {
		check(name != "" && t != nil, "PolicyTokenizers[%s]: give it a name and a tokenizer", name)
		check(name != c.Name, "PolicyTokenizers[%s]: the model has this name; choose another", name)
	}
	check(c.EmptyReward >= 0 && c.EmptyReward <= 1, "EmptyReward is %v; it must be in [0,1]", c.EmptyReward)
	check(c.MaxLength > special, "MaxLength is %d; it must be above the %d special tokens", c.MaxLength, special)
	check(c.WholeCharacters >= 0, "WholeCharacters is %d; use 0 for none", c.WholeCharacters)
	check(c.MaxInstances > 0, "MaxInstances is %d; it must be positive", c.MaxInstances)
	check(c.MaxRequestInstances > 0, "MaxRequestInstances is %d; it must be positive", c.MaxRequestInstances)
	check(c.CacheBytes >= 0, "CacheBytes is %d; use 0 for no cache", c.CacheBytes)
	check(c.MaxBatchTokens > 0, "MaxBatchTokens is %d; it must be positive", c.MaxBatchTokens)
	check(c.MaxQueueTokens > 0, "MaxQueueTokens is %d; it must be positive", c.MaxQueueTokens)
	check(c.MaxQueueTime >= 0, "MaxQueueTime is %v; use 0 for no limit", c.MaxQueueTime)
	return errors.Join(errs...)
}

// Scorer scores requests with one model. It is safe for concurrent use: callers
// segment and tokenize on their own goroutine, and one goroutine runs the model
// on batches that mix the instances of all callers.
type Scorer struct {
	config    ScorerConfig
	model     Model
	tokenizer Tokenizer
	cache     *cache
	metrics   *metrics
	room      int        // tokens of a sequence, special ones excluded
	exclusive func(bool) // Request.Exclusive of the batch that is computed, or nil; of the goroutine that runs the model

	seed maphash.Seed // of the tickets

	mu      sync.Mutex
	work    sync.Cond // signals new work, and closing
	queue   *batching.Queue[*job]
	closed  bool
	stopped chan struct{}
}

// NewScorer checks the configuration, registers its metrics with reg (nil for
// none) and starts the goroutine that Close stops.
func NewScorer(cfg ScorerConfig, model Model, tok Tokenizer, reg prometheus.Registerer) (*Scorer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(tok.Special()); err != nil {
		return nil, fmt.Errorf("scorer: %w", err)
	}
	cache, err := newCache(cfg.CacheBytes, len(cfg.Aspects))
	if err != nil {
		return nil, fmt.Errorf("scorer: %w", err)
	}
	metrics, err := newMetrics(reg, cfg.Version, cfg.Aspects)
	if err != nil {
		return nil, fmt.Errorf("scorer: %w", err)
	}
	s := &Scorer{
		config: cfg, model: model, tokenizer: tok, cache: cache, metrics: metrics,
		room:    cfg.MaxLength - tok.Special(),
		queue:   batching.New[*job](batching.Limits{BatchTokens: cfg.MaxBatchTokens, QueueTokens: cfg.MaxQueueTokens, QueueTime: cfg.MaxQueueTime}),
		seed:    maphash.MakeSeed(),
		stopped: make(chan struct{}),
	}
	s.work.L = &s.mu
	go s.run()
	return s, nil
}

// Info names the model.
func (s *Scorer) Info() ModelInfo {
	return ModelInfo{Name: s.config.Name, Version: s.config.Version, Numerics: s.config.Numerics}
}

// Aspects returns the rules that the model scores, at least one. The caller must
// not change them.
func (s *Scorer) Aspects() []Aspect { return s.config.Aspects }

func (s *Scorer) aspects() int { return len(s.config.Aspects) }

// Combination is how they become one reward where a request does not choose.
func (s *Scorer) Combination() Combination { return s.config.Combination }

// Score returns the results of req, in its order. The same response gets the
// same score whatever else is scored at the same time.
//
// Errors: *InputError when the request is invalid, has too many instances or pins
// another model; *OverloadedError (ErrOverloaded) when the queue is full, or so
// full that ctx would end before the result is ready; ErrClosed after Close;
// ErrModel when the model failed on it; and ctx's error when the caller canceled
// it, which also removes its queued work.
//
// Where ctx has a span that records (internal/trace), Score adds a span "score" with
// the children "tokenize", "queue" and "batch".
func (s *Scorer) Score(ctx context.Context, req Request) (ScoreResponse, error) {
	ctx, span := trace.Begin(ctx, "score")
	s.startSpan(span, req)
	answer, err := s.score(ctx, req)
	endSpan(span, answer, err)
	return answer, err
}

func (s *Scorer) score(ctx context.Context, req Request) (ScoreResponse, error) {
	start := time.Now()
	if err := req.Validate(); err != nil {
		return ScoreResponse{}, err
	}
	if err := s.accepts(req.Model); err != nil {
		return ScoreResponse{}, err
	}
	req.Options = req.Options.withDefaults()
	t := s.ticket(req)
	if err := s.checkAdmission(req.priority(), &t, 1); err != nil {
		return ScoreResponse{}, s.rejected(err)
	}
	combine, err := s.combiner(req.Options)
	if err != nil {
		return ScoreResponse{}, err
	}
	_, tokenizing := trace.Begin(ctx, "tokenize")
	work, bags, err := s.prepare(ctx, req, t)
	tokenizing.End()
	if err != nil {
		return ScoreResponse{}, s.rejected(err)
	}
	work.trace = newJobTrace(oteltrace.SpanFromContext(ctx), work, bags)
	prepared := time.Now()
	if work.Remaining() > 0 {
		err := s.compute(ctx, work)
		work.recordSpans(ctx)
		if err != nil {
			return ScoreResponse{}, s.rejected(err)
		}
	}
	computed := time.Now()
	response := s.respond(ctx, req, bags, work, combine)
	response.TimingMS = Timing{
		Queue:     milliseconds(computed.Sub(prepared) - work.inference),
		Tokenize:  milliseconds(prepared.Sub(start)),
		Inference: milliseconds(work.inference),
		Total:     milliseconds(time.Since(start)),
	}
	return response, nil
}

// respond renders the results of a request whose margins are computed, and reports them
// to metrics and observer.
func (s *Scorer) respond(ctx context.Context, req Request, bags []bag, work *job, combine combiner) ScoreResponse {
	response := ScoreResponse{Model: s.Info(), OffsetUnit: req.Options.OffsetUnit, Results: make([]Result, len(bags))}
	var observations []Observation
	for i, b := range bags {
		raise(b.utterances, b.wholes, work)
		result, compliance := s.render(req.Responses[i], b, work, combine, req.Options)
		if !req.Internal {
			s.metrics.observe(ctx, result, compliance)
			observations = append(observations, Observation{compliance, len(b.utterances)})
		}
		response.Results[i] = result
		if req.Options.Dense != "" {
			s.assignTokenRewards(&response.Results[i], req.Responses[i], b, work, combine, req.Options)
		}
	}
	s.metrics.responses.Add(float64(len(bags)))
	if s.config.Observer != nil && !req.Internal {
		s.config.Observer.Observe(req, response, observations)
	}
	return response
}

func milliseconds(d time.Duration) float64 { return max(0, d.Seconds()*1000) }

// accepts checks the model that a request pins.
func (s *Scorer) accepts(pin string) error {
	if pin == "" || pin == s.config.Name || pin == s.config.Version {
		return nil
	}
	return &InputError{Kind: KindNotFound, Field: "model", Message: fmt.Sprintf(
		"%s is not loaded; use %q, its version %q, or leave the field out", Quote(pin), s.config.Name, s.config.Version)}
}

// Close stops admission, waits for the admitted requests, and stops the
// goroutine. It may be called more than once.
func (s *Scorer) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Broadcast()
	<-s.stopped
}

// DeleteMetrics removes the metrics of the scorer's version from its registerer.
// Call it after Close, when the version is unloaded.
func (s *Scorer) DeleteMetrics() { s.metrics.forget() }
