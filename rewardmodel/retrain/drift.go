package retrain

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"
)

// WindowSize is the number of scores of a reference, and of the recent ones
// that are compared with it.
const WindowSize = 1000

// driftLevel is the significance that a drift must have beside its distance.
// It is small because the same windows are tested again and again.
const driftLevel = 0.001

// Drift compares the recent scores of a model version with its reference, by
// the two-sample Kolmogorov-Smirnov test.
type Drift struct {
	Reference int     `json:"reference"` // scores of reference; 0 while they are gathered
	Recent    int     `json:"recent"`    // scores compared with them
	Distance  float64 `json:"distance"`  // largest difference of the distribution functions, in [0,1]
	PValue    float64 `json:"p_value"`   // of a distance as large without a drift, asymptotic
}

// Window holds scores of bags (violations in [0,1]) of one model version: the
// first of them as reference, unless that is given, and the latest. Adding one
// takes constant time and no memory beyond twice WindowSize scores. It is safe
// for concurrent use.
//
// What it calls drift is a change of responses, of the policy that is trained
// as well as of its prompts; the version's own scores do not change.
type Window struct {
	mu        sync.Mutex
	version   string
	size      int
	reference []float64 // in order of arrival while it is gathered, sorted once it is whole
	recent    []float64 // a ring
	next      int       // where the ring takes the next score
}

// NewWindow returns the window of a model version.
func NewWindow(version string) *Window { return &Window{version: version, size: WindowSize} }

// Reset begins anew for a version, as after a promotion. The reference are
// scores of that version on responses like those to come, at most WindowSize
// of them; nil: the next scores are.
func (w *Window) Reset(version string, reference []float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version, w.recent, w.next, w.reference = version, nil, 0, nil
	w.refer(reference)
}

// Refer sets the reference, which another replica has gathered. Scores that
// were gathered for one count as recent. It does nothing when version is
// another or the reference is whole already.
func (w *Window) Refer(version string, reference []float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version != w.version || len(w.reference) == w.size {
		return
	}
	gathered := w.reference
	w.reference = nil
	w.refer(reference)
	for _, score := range gathered {
		w.add(score)
	}
}

// refer takes a reference, as whole when it is full.
func (w *Window) refer(scores []float64) {
	for _, score := range scores[:min(len(scores), w.size)] {
		w.add(score)
	}
}

// Add takes the score of one bag. Scores of other versions, which a client has
// pinned, are passed over.
func (w *Window) Add(version string, violation float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version == w.version {
		w.add(violation)
	}
}

func (w *Window) add(violation float64) {
	switch {
	case math.IsNaN(violation):
	case len(w.reference) < w.size:
		if w.reference = append(w.reference, violation); len(w.reference) == w.size {
			slices.Sort(w.reference)
		}
	case len(w.recent) < w.size:
		w.recent = append(w.recent, violation)
	default:
		w.recent[w.next] = violation
		w.next = (w.next + 1) % w.size
	}
}

// Reference returns the version and its reference in ascending order, nil
// while it is not whole.
func (w *Window) Reference() (version string, scores []float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reference) < w.size {
		return w.version, nil
	}
	return w.version, slices.Clone(w.reference)
}

// Drift compares; it takes the time to sort the recent scores.
func (w *Window) Drift() Drift {
	w.mu.Lock()
	reference, recent := w.reference, slices.Clone(w.recent) // a whole reference is never written to
	w.mu.Unlock()
	if len(reference) < w.size || len(recent) == 0 {
		return Drift{PValue: 1}
	}
	slices.Sort(recent)
	distance := min(stat.KolmogorovSmirnov(reference, nil, recent, nil), 1) // it rounds
	return Drift{Reference: len(reference), Recent: len(recent), Distance: distance,
		PValue: kolmogorov(distance, len(reference), len(recent))}
}

// kolmogorov is the asymptotic probability of a two-sample distance at least
// as large when both samples have one distribution, with the correction of
// Stephens (1970) for small samples. Ties make it too large, never too small.
func kolmogorov(distance float64, n, m int) float64 {
	root := math.Sqrt(float64(n) * float64(m) / float64(n+m))
	lambda := (root + 0.12 + 0.11/root) * distance
	if lambda < 0.2 { // the sum converges slowly, to 1 within 1e-12
		return 1
	}
	sum, sign := 0.0, 1.0
	for j := 1.0; j <= 100; j++ {
		term := math.Exp(-2 * j * j * lambda * lambda)
		sum += sign * term
		if term < 1e-16 {
			break
		}
		sign = -sign
	}
	return min(max(2*sum, 0), 1)
}
