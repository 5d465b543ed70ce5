// Package versions holds several versions of a model in one process: it loads
// them on demand, promotes one to be the current one while requests are scored,
// and evicts the least recently used ones within bounds of count and memory.
package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/rewardmodel"
)

// ErrNotLoaded reports that there is no model to score with yet.
var ErrNotLoaded = errors.New("no model is loaded yet")

// ErrUnknown reports that a model version does not exist. A Loader returns it.
var ErrUnknown = errors.New("unknown model version")

// ErrLoad reports that a model version that exists could not be loaded.
var ErrLoad = errors.New("the model version cannot be loaded")

// Loaded is a model version in memory.
type Loaded struct {
	*rewardmodel.Scorer
	Created time.Time    // of the checkpoint; may be zero
	Labels  []string     // the class names in the order of the checkpoint
	Bytes   int64        // memory of the version
	Free    func() error // called once, after the Scorer is closed; may be nil
}

func (l Loaded) close() error {
	if l.Scorer == nil {
		return nil
	}
	l.Scorer.Close()
	l.DeleteMetrics()
	if l.Free == nil {
		return nil
	}
	return l.Free()
}

// Loader prepares model versions for scoring: it finds, validates, reads and warms
// up a version. It must be safe for concurrent use.
type Loader interface {
	// Load returns the version; its Scorer reports the same version. Once Load
	// knows how much memory the version needs, and before allocating it, Load calls
	// room, which waits until other versions are evicted, and fails when room
	// returns an error. The error wraps ErrUnknown when the version does not exist.
	Load(ctx context.Context, version string, room func(bytes int64) error) (Loaded, error)
}

// Config bounds the contents of a Set. A zero field has the default at the end of
// its comment, except where zero has a meaning.
type Config struct {
	MaxLoaded   int           // versions that stay loaded, at least 2; 2
	MaxBytes    int64         // memory of those that stay loaded; 0: no limit
	RememberFor time.Duration // how long requests do not retry a failed load; 5 s
	LoadTimeout time.Duration // per load; 10 min
}

func (c Config) withDefaults() Config {
	c.MaxLoaded = cmp.Or(c.MaxLoaded, 2)
	c.RememberFor = cmp.Or(c.RememberFor, 5*time.Second)
	c.LoadTimeout = cmp.Or(c.LoadTimeout, 10*time.Minute)
	return c
}

func (c Config) validate() error {
	switch {
	case c.MaxLoaded < 2:
		return fmt.Errorf("MaxLoaded is %d; it must be at least 2, or a promotion would leave no room for the model that it replaces", c.MaxLoaded)
	case c.MaxBytes < 0:
		return fmt.Errorf("MaxBytes is %d; use 0 for no limit", c.MaxBytes)
	case c.RememberFor < 0 || c.LoadTimeout < 0:
		return fmt.Errorf("RememberFor is %v and LoadTimeout %v; neither may be negative", c.RememberFor, c.LoadTimeout)
	}
	return nil
}

// Set scores with several versions of a model in one process and replaces
// the current one while it serves requests. It is safe for concurrent use.
//
// A request is scored by exactly one version, which is freed only after its last
// request. Therefore neither a promotion nor an eviction makes a request fail or
// mixes two versions in a result.
//
// # Limits
//
// The limits determine which versions stay loaded. The least recently used version
// that is not current is evicted first. To load a version that a request pins, a
// Set evicts only versions that no request uses; if that does not free enough
// memory, the request is rejected. A promotion always succeeds in reserving
// memory. It temporarily loads one version more than MaxLoaded if MaxBytes allows;
// otherwise it evicts versions that no request uses, and then versions in use
// after their last request; requests that pin those wait to load them again. If the
// current and the new version together exceed MaxBytes, they do so until the
// current one has completed its last request: the process needs that much memory
// in addition.
type Set struct {
	config  Config
	loader  Loader
	metrics *metrics

	ctx       context.Context // of loads
	cancel    context.CancelFunc
	promoting chan struct{} // holds a token during a promotion
	reading   chan struct{} // holds a token while a version allocates memory

	mu       sync.Mutex
	changed  chan struct{}     // closed and replaced when a version was freed or a load has ended
	known    map[string]*entry // loaded, being loaded, or recently failed
	evicting map[*entry]bool   // to be freed after their last request
	current  *entry
	loads    int // in flight
	clock    uint64
	closed   bool
	errs     []error // from freeing versions
}

// entry is a version. Set.mu guards its fields, except those that do not change
// once done is closed.
type entry struct {
	version   string
	promotion bool          // a promotion loads it, so the limits of a promotion apply
	wanted    bool          // it becomes current when loaded
	done      chan struct{} // closed when loaded or failed
	loaded    Loaded
	err       error // of the failed load
	since     time.Time
	bytes     int64
	uses      int    // requests that use it or wait for it
	last      uint64 // when it was last used, by Set.clock
}

func (e *entry) loading() bool {
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

func (e *entry) ready() bool { return !e.loading() && e.err == nil }

// New returns an empty Set and registers its metrics with reg, which may be nil. It holds no
// model before Promote, and must be closed.
func New(cfg Config, loader Loader, reg prometheus.Registerer) (*Set, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("versions: %w", err)
	}
	v := &Set{
		config: cfg, loader: loader,
		promoting: make(chan struct{}, 1), reading: make(chan struct{}, 1),
		changed: make(chan struct{}), known: map[string]*entry{}, evicting: map[*entry]bool{},
	}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	var err error
	if v.metrics, err = newMetrics(v, reg); err != nil {
		return nil, fmt.Errorf("versions: %w", err)
	}
	return v, nil
}

// Score scores req with the version that it pins, or with the current one when
// it pins none or names the model. A version that is not loaded is loaded first,
// once for all requests that wait for it; the load continues when they are
// canceled.
//
// Errors in addition to those of Scorer.Score: an *InputError for an unknown
// version, ErrNotLoaded before there is a current one, an *OverloadedError when
// there is not enough memory for the version, and one that also wraps ErrLoad when
// loading it has failed.
func (v *Set) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	start := time.Now()
	e, err := v.pinned(ctx, req)
	if err != nil {
		return rewardmodel.ScoreResponse{}, err
	}
	defer v.release(e)
	waited := time.Since(start)
	response, err := e.loaded.Score(ctx, req)
	response.TimingMS.Total += waited.Seconds() * 1000
	return response, err
}

// pinned returns the entry that scores req, with its use count incremented.
func (v *Set) pinned(ctx context.Context, req rewardmodel.Request) (*entry, error) {
	v.mu.Lock()
	current := v.current
	switch {
	case v.closed:
		v.mu.Unlock()
		return nil, rewardmodel.ErrClosed
	case current == nil:
		v.mu.Unlock()
		return nil, ErrNotLoaded
	case req.Model == "" || req.Model == current.loaded.Info().Name:
		v.use(current)
		v.mu.Unlock()
		return current, nil
	}
	if e := v.known[req.Model]; e != nil && e.ready() {
		v.use(e)
		v.mu.Unlock()
		return e, nil
	}
	v.mu.Unlock()
	if err := req.Validate(); err != nil { // not worth loading a model for
		return nil, err
	}
	e, err := v.acquire(ctx, req.Model, false)
	if err != nil {
		return nil, v.explain(req.Model, current.loaded.Info(), err)
	}
	return e, nil
}

// explain returns the error that a client receives when loading a pinned version
// fails.
func (v *Set) explain(pin string, current rewardmodel.ModelInfo, err error) error {
	var full *rewardmodel.OverloadedError
	switch {
	case errors.Is(err, ErrUnknown):
		return &rewardmodel.InputError{Kind: rewardmodel.KindNotFound, Field: "model", Message: fmt.Sprintf(
			"%s is not a version of this model; use %q, its version %q, or leave the field out", rewardmodel.Quote(pin), current.Name, current.Version)}
	case errors.Is(err, ErrLoad) && !errors.As(err, &full):
		return fmt.Errorf("%w: %w", err, &rewardmodel.OverloadedError{RetryAfter: v.config.RememberFor, Reason: fmt.Sprintf(
			"the model version %s could not be loaded; see the log of the service", rewardmodel.Quote(pin))})
	}
	return err
}

// Promote makes version the current one: it loads the version in the background
// unless it is loaded, and then replaces the current one for all later requests.
// The old version stays loaded while the limits allow, because clients may pin it.
// After an error the old version continues to serve; the error wraps ErrUnknown,
// ErrLoad, ErrClosed or ctx's error. Promotions run one at a time, in any order.
func (v *Set) Promote(ctx context.Context, version string) error {
	select {
	case v.promoting <- struct{}{}:
		defer func() { <-v.promoting }()
	case <-ctx.Done():
		return fmt.Errorf("promotion of %s: %w", rewardmodel.Quote(version), ctx.Err())
	}
	e, err := v.acquire(ctx, version, true)
	if err != nil {
		return fmt.Errorf("promotion of %s: %w", rewardmodel.Quote(version), err)
	}
	v.release(e)
	return nil
}

// setCurrent replaces the current version and marks the old one as just used.
func (v *Set) setCurrent(e *entry) {
	if v.current == e {
		return
	}
	if v.current != nil {
		v.touch(v.current)
	}
	v.current, e.since = e, time.Now()
	v.touch(e)
}

// Current returns the current model, or a zero value before there is one.
func (v *Set) Current() rewardmodel.ModelInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.current == nil {
		return rewardmodel.ModelInfo{}
	}
	return v.current.loaded.Info()
}

// Status describes the state of a version.
type Status struct {
	Version     string
	Name        string // of the model
	Numerics    string // of the model; see rewardmodel.ModelInfo
	Current     bool
	Loaded      bool                    // false: being loaded, or failed
	Since       time.Time               // when it became current, was loaded, started to load, or failed
	Bytes       int64                   // memory of the version
	Uses        int                     // requests that use it or wait for it
	Error       string                  // of the failed load
	Created     time.Time               // of the checkpoint
	Aspects     []rewardmodel.Aspect    // of the model
	Combination rewardmodel.Combination // of the aspects
	Labels      []string                // the class names in the order of the checkpoint
}

// List returns the versions: the current one, then the other loaded ones, most
// recently used first, then those being loaded and those that failed recently.
func (v *Set) List() []Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	var entries []*entry
	for _, e := range v.known {
		if e.ready() || !errors.Is(e.err, ErrUnknown) { // any client can cause unknown ones
			entries = append(entries, e)
		}
	}
	rank := func(e *entry) int {
		switch {
		case e == v.current:
			return 0
		case e.ready():
			return 1
		}
		return 2
	}
	slices.SortFunc(entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.last, a.last))
	})
	list := make([]Status, len(entries))
	for i, e := range entries {
		list[i] = e.status(e == v.current)
	}
	return list
}

func (e *entry) status(current bool) Status {
	s := Status{Version: e.version, Current: current, Loaded: e.ready(), Since: e.since, Bytes: e.bytes, Uses: e.uses}
	switch {
	case s.Loaded:
		info := e.loaded.Info()
		s.Name, s.Numerics = info.Name, info.Numerics
		s.Aspects, s.Combination = e.loaded.Aspects(), e.loaded.Combination()
		s.Created, s.Labels = e.loaded.Created, slices.Clone(e.loaded.Labels)
	case e.err != nil && !e.loading():
		s.Error = e.err.Error()
	}
	return s
}

// Close stops admission and loading, waits for the admitted requests, and frees
// every version. It returns the errors of freeing versions, now and before.
func (v *Set) Close() error {
	v.cancel()
	v.mu.Lock()
	if !v.closed {
		v.closed, v.current = true, nil
		for _, e := range v.known {
			if e.ready() {
				v.evict(e)
			}
		}
		v.metrics.unregister()
	}
	for len(v.evicting) > 0 || v.loads > 0 {
		changed := v.changed
		v.mu.Unlock()
		<-changed
		v.mu.Lock()
	}
	defer v.mu.Unlock()
	return errors.Join(v.errs...)
}
