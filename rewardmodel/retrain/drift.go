package retrain

import (
	"maps"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"
)

// WindowSize is the number of reference scores, and the maximum number of recent
// scores that are compared with them.
const WindowSize = 1000

// driftLevel is the significance level of a drift, in addition to its distance. It
// is small because the same windows are tested repeatedly.
const driftLevel = 0.001

// Drift compares the recent scores of a model version with its reference, by
// the two-sample Kolmogorov-Smirnov test.
type Drift struct {
	// Aspect is the one that is compared, if the model has several: that with the
	// largest distance; Aspects has the others as well.
	Aspect  string           `json:"aspect,omitzero"`
	Aspects map[string]Drift `json:"aspects,omitzero"`

	Reference int     `json:"reference"` // reference scores; 0 until they are complete
	Recent    int     `json:"recent"`    // scores compared with them
	Distance  float64 `json:"distance"`  // largest difference of the distribution functions, in [0,1]
	PValue    float64 `json:"p_value"`   // asymptotic probability of a distance at least as large without a drift
}

// LargestDrift is the drift of a model with several aspects, by their names.
func LargestDrift(aspects map[string]Drift) Drift {
	out := Drift{PValue: 1}
	for _, name := range slices.Sorted(maps.Keys(aspects)) {
		if d := aspects[name]; out.Aspect == "" || d.Distance > out.Distance {
			out, out.Aspect = d, name
		}
	}
	out.Aspects = aspects
	return out
}

// each returns the drift of each aspect.
func (d Drift) each() []Drift {
	if d.Aspects == nil {
		return []Drift{d}
	}
	var all []Drift
	for _, name := range slices.Sorted(maps.Keys(d.Aspects)) {
		of := d.Aspects[name]
		of.Aspect = name
		all = append(all, of)
	}
	return all
}

// Window holds scores of bags (violations in [0,1]) of one model version and aspect: the
// first of them as reference, unless Reset sets one, and the latest. Adding one
// takes constant time; the memory is at most twice WindowSize scores. It is safe
// for concurrent use.
//
// A drift is a change of the responses, caused by the trained policy or by its
// prompts; the model version does not change.
type Window struct {
	mu        sync.Mutex
	version   string
	size      int
	reference []float64 // in order of arrival until it is complete, then sorted
	recent    []float64 // ring buffer
	next      int       // index of the next score in the ring
}

// NewWindow returns the window of a model version.
func NewWindow(version string) *Window { return &Window{version: version, size: WindowSize} }

// Reset clears the window for a version, as after a promotion. reference has at
// most WindowSize scores of that version on representative responses; nil: the next
// scores are the reference.
func (w *Window) Reset(version string, reference []float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version, w.recent, w.next, w.reference = version, nil, 0, nil
	w.addReference(reference)
}

// SetReference sets the reference that another replica has collected. Scores that
// were collected for a reference here count as recent. It does nothing for another
// version, or when the reference is complete.
func (w *Window) SetReference(version string, reference []float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version != w.version || len(w.reference) == w.size {
		return
	}
	collected := w.reference
	w.reference = nil
	w.addReference(reference)
	for _, score := range collected {
		w.add(score)
	}
}

// addReference adds the scores of a reference, which may be incomplete.
func (w *Window) addReference(scores []float64) {
	for _, score := range scores[:min(len(scores), w.size)] {
		w.add(score)
	}
}

// Add adds the score of one bag. It ignores the scores of other versions, which
// clients may request.
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

// Reference returns the version and its reference in ascending order, nil until it
// is complete.
func (w *Window) Reference() (version string, scores []float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reference) < w.size {
		return w.version, nil
	}
	return w.version, slices.Clone(w.reference)
}

// Drift compares the recent scores with the reference. It sorts the recent scores.
func (w *Window) Drift() Drift {
	w.mu.Lock()
	reference, recent := w.reference, slices.Clone(w.recent) // a complete reference is immutable
	w.mu.Unlock()
	if len(reference) < w.size || len(recent) == 0 {
		return Drift{PValue: 1}
	}
	slices.Sort(recent)
	distance := min(stat.KolmogorovSmirnov(reference, nil, recent, nil), 1) // may exceed 1 by rounding
	return Drift{Reference: len(reference), Recent: len(recent), Distance: distance,
		PValue: kolmogorov(distance, len(reference), len(recent))}
}

// kolmogorov is the asymptotic probability of a two-sample distance at least
// as large when both samples have the same distribution, with the correction of
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
