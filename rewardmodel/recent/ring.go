package recent

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"assay/rewardmodel"
)

// Config bounds a Ring. A zero field has the default at the end of its comment,
// except where zero has a meaning.
type Config struct {
	MaxResponses int // 5000
	MaxBytes     int // of memory; 16 MiB
	// MaxRate is the average number of responses per second beyond which requests are
	// skipped; 500.
	MaxRate int
	// Texts is how long prompts, responses and witnesses are kept, at most; 0: not at
	// all.
	Texts time.Duration
	// Erased reports whether everything about a response was erased on request, after
	// which the Ring does not return it; nil: nothing was.
	Erased func(id string) bool
}

func (c Config) withDefaults() Config {
	c.MaxResponses = cmp.Or(max(c.MaxResponses, 0), 5000)
	c.MaxBytes = cmp.Or(max(c.MaxBytes, 0), 16<<20)
	c.MaxRate = cmp.Or(max(c.MaxRate, 0), 500)
	if c.Erased == nil {
		c.Erased = func(string) bool { return false }
	}
	return c
}

// Ring holds the responses that were scored last. It implements
// rewardmodel.Observer. It is safe for concurrent use.
type Ring struct {
	config   Config
	seed     maphash.Seed
	budget   budget
	observed atomic.Uint64
	skipped  atomic.Uint64

	mu      sync.Mutex
	held    []*Response // with consecutive sequences; a response is never changed
	bytes   int
	newest  uint64        // the last sequence that was given
	bare    uint64        // up to this sequence, texts were removed
	changed chan struct{} // closed at the next addition; nil while nobody waits
}

// New returns an empty Ring.
func New(cfg Config) *Ring {
	cfg = cfg.withDefaults()
	now := time.Now()
	return &Ring{
		config: cfg, seed: maphash.MakeSeed(),
		budget: budget{start: now.Add(-time.Second), interval: time.Second / time.Duration(cfg.MaxRate)},
		// A process records fewer than a million responses per second, so that a client
		// that continues after a restart receives exactly what is new. The number is
		// exact in JavaScript.
		newest: uint64(now.UnixMicro()),
	}
}

// Observe implements rewardmodel.Observer. It records the responses of a request, or
// skips all of them.
func (r *Ring) Observe(request rewardmodel.Request, response rewardmodel.ScoreResponse, observations []rewardmodel.Observation) {
	n := uint64(len(response.Results))
	r.observed.Add(n)
	if !r.budget.take(len(response.Results)) {
		r.skipped.Add(n)
		return
	}
	described := describe(request, response, observations, r.seed, r.config.Texts > 0)
	if !r.mu.TryLock() { // a request never waits for one that reads or records
		r.skipped.Add(n)
		return
	}
	defer r.mu.Unlock()
	for _, d := range described {
		r.add(d)
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *Ring) add(d *Response) {
	r.newest++
	d.Sequence = r.newest
	r.held = append(r.held, d)
	r.bytes += d.size()
	for len(r.held) > r.config.MaxResponses || r.bytes > r.config.MaxBytes && len(r.held) > 1 {
		r.bytes -= r.held[0].size()
		r.held[0] = nil
		r.held = r.held[1:]
	}
}

// Counts returns how many responses were scored since the start, and how many of
// them were skipped.
func (r *Ring) Counts() (scored, skipped uint64) {
	skipped = r.skipped.Load()
	return r.observed.Load(), skipped
}

// KeepsTexts reports whether texts are recorded.
func (r *Ring) KeepsTexts() bool { return r.config.Texts > 0 }

// Newest returns the sequence after which nothing has been recorded yet.
func (r *Ring) Newest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// Before returns the sequence before the last n responses.
func (r *Ring) Before(n int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest - uint64(min(max(n, 0), len(r.held)))
}

// After returns the first n held responses after a sequence, in their order, and the
// sequence to continue after. If there are none, changed is closed at the next
// addition. A sequence that was never given is taken as 0.
func (r *Ring) After(sequence uint64, n int) (responses []*Response, next uint64, changed <-chan struct{}) {
	responses, next, changed = r.after(sequence, n)
	kept := responses[:0]
	for _, d := range responses {
		if !r.config.Erased(d.ID) {
			kept = append(kept, d)
		}
	}
	return kept, next, changed
}

// after is After with erased responses. The slice is the caller's.
func (r *Ring) after(sequence uint64, n int) ([]*Response, uint64, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireTexts()
	if sequence > r.newest {
		sequence = 0
	}
	start := len(r.held)
	if behind := r.newest - sequence; behind < uint64(len(r.held)) {
		start -= int(behind)
	} else {
		start = 0
	}
	part := slices.Clone(r.held[start:min(start+max(n, 0), len(r.held))])
	if len(part) > 0 {
		return part, part[len(part)-1].Sequence, nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return nil, sequence, r.changed
}

// expireTexts removes the texts that are older than Config.Texts. Until somebody
// reads, they stay in memory.
func (r *Ring) expireTexts() {
	if r.config.Texts <= 0 || len(r.held) == 0 {
		return
	}
	first := r.held[0].Sequence
	limit := time.Now().Add(-r.config.Texts)
	for at := max(r.bare+1, first); at <= r.newest; at++ {
		d := r.held[at-first]
		if !d.kept.Before(limit) {
			return
		}
		bare := d.withoutTexts()
		r.held[at-first] = bare
		r.bytes -= d.size() - bare.size()
		r.bare = at
	}
}
