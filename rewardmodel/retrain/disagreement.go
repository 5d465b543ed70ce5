package retrain

import (
	"maps"
	"math"
	"slices"
	"sync"

	"assay/rewardmodel/feedback"
)

// Disagreement counts new labels against the decisions of a model version on
// the same responses.
type Disagreement struct {
	Labels  int `json:"labels"`  // new labels of responses that the version has scored
	Against int `json:"against"` // of these, those that contradict the decision
	// Aspect is set in the counts of one aspect. Aspects has those of each aspect of
	// a model with several; the counts above are then of labels of the whole response.
	Aspect  string                  `json:"-"`
	Aspects map[string]Disagreement `json:"aspects,omitzero"`
}

// each returns the counts of the whole response, and of each aspect.
func (d Disagreement) each() []Disagreement {
	all := []Disagreement{d}
	for _, name := range slices.Sorted(maps.Keys(d.Aspects)) {
		of := d.Aspects[name]
		of.Aspect = name
		all = append(all, of)
	}
	return all
}

// Rate is the share of labels that contradict the decision; 0 without labels.
func (d Disagreement) Rate() float64 {
	if d.Labels == 0 {
		return 0
	}
	return float64(d.Against) / float64(d.Labels)
}

// Lower is the lower end of the 95 % interval of the rate (Wilson 1927); 0
// without labels.
func (d Disagreement) Lower() float64 {
	if d.Labels == 0 {
		return 0
	}
	const z = 1.96
	n, rate := float64(d.Labels), d.Rate()
	center := rate + z*z/(2*n)
	spread := z * math.Sqrt(rate*(1-rate)/n+z*z/(4*n*n))
	return max((center-spread)/(1+z*z/n), 0)
}

// TallySize is the maximum number of responses of a Tally; it drops the oldest.
const TallySize = 2000

// Tally counts the disagreement with one model version in one aspect. A response counts
// once, with its latest label, so that corrections and multiple raters do not add
// weight. It is safe for concurrent use.
type Tally struct {
	mu      sync.Mutex
	version string
	against map[feedback.Hash]bool // by response
	order   []feedback.Hash        // ring buffer of the responses in against
	next    int                    // index of the next response in the ring
	count   Disagreement
}

// NewTally returns the tally of a model version.
func NewTally(version string) *Tally {
	return &Tally{version: version, against: map[feedback.Hash]bool{}}
}

// Reset restarts the count for a version, as after a promotion.
func (t *Tally) Reset(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version, t.order, t.next, t.count = version, nil, 0, Disagreement{}
	clear(t.against)
}

// Add counts a label of a response and the decision of the version on it. It
// ignores the decisions of other versions.
func (t *Tally) Add(version string, response feedback.Hash, labeled, decided bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if version != t.version {
		return
	}
	if _, known := t.against[response]; known {
		t.drop(response)
	} else if len(t.order) < TallySize {
		t.order = append(t.order, response)
	} else {
		t.drop(t.order[t.next])
		t.order[t.next] = response
		t.next = (t.next + 1) % TallySize
	}
	against := labeled != decided
	t.against[response] = against
	t.count.Labels++
	if against {
		t.count.Against++
	}
}

func (t *Tally) drop(response feedback.Hash) {
	t.count.Labels--
	if t.against[response] {
		t.count.Against--
	}
	delete(t.against, response)
}

// Disagreement returns the counts.
func (t *Tally) Disagreement() Disagreement {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}
