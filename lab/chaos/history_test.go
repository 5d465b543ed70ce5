package chaos_test

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"assay/rewardmodel/bag"
)

// history is what clients observed.
type history struct {
	mu         sync.Mutex
	began      time.Time
	lines      []string
	violations []string
	losses     []loss // that damage of stored files may explain
	numbers    map[string]int

	labels    map[labelKey]labelState
	published map[string]string             // acknowledged responses: text by id
	attempted map[string]string             // all of them
	rewards   map[string]map[string]float64 // by version and text
	registry  []porcupine.Operation         // see registry_test.go
}

// labelKey names a label: a response and a rater.
type labelKey struct{ id, rater string }

// labelState is the last acknowledged operation on a label.
type labelState struct {
	label bag.Label // "": withdrawn or erased
	text  string
}

func newHistory() *history {
	return &history{began: time.Now(), numbers: map[string]int{}, labels: map[labelKey]labelState{}, published: map[string]string{},
		attempted: map[string]string{}, rewards: map[string]map[string]float64{}}
}

// now is the time since the start of the schedule.
func (h *history) now() int64 { return int64(time.Since(h.began)) }

// note records what happened, for the case that the schedule fails.
func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%6.2f %s", time.Since(h.began).Seconds(), fmt.Sprintf(format, args...)))
}

func (h *history) notes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines
}

// maxViolations is how many violations a schedule reports.
const maxViolations = 20

// violate records that a promise was broken.
func (h *history) violate(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.violations) < maxViolations {
		h.violations = append(h.violations, fmt.Sprintf("%.2f s: %s", time.Since(h.began).Seconds(), fmt.Sprintf(format, args...)))
	}
}

// loss is something acknowledged that is gone, or is there again.
type loss struct {
	what    string
	streams []string // whose damage would explain it
}

// lost records a loss.
func (h *history) lost(what string, streams []string, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.losses = append(h.losses, loss{what + " " + fmt.Sprintf(format, args...), streams})
}

func (h *history) failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.violations) > 0
}

// count counts an event.
func (h *history) count(name string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.numbers[name] += n
}

func (h *history) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.numbers)
}

// tolerance is how far two computations of a reward may differ: sums in another order.
const tolerance = 1e-4

// scored records a reward. A version must return the same one for a text each time.
func (h *history) scored(by, version, text string, reward float64) {
	h.mu.Lock()
	rewards := h.rewards[version]
	if rewards == nil {
		rewards = map[string]float64{}
		h.rewards[version] = rewards
	}
	before, known := rewards[text]
	if !known {
		rewards[text] = reward
	}
	h.numbers["rewards: "+by]++
	h.mu.Unlock()
	if known && !near(before, reward) {
		h.violate("%s: version %s computes %v for %q, before it was %v", by, version, reward, text, before)
	}
}

func near(a, b float64) bool { return a-b < tolerance && b-a < tolerance }

// labeled records an acknowledged operation on labels.
func (h *history) labeled(key labelKey, state labelState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.labels[key] = state
}

// inForce are the labels that must exist.
func (h *history) inForce() map[labelKey]labelState {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := maps.Clone(h.labels)
	maps.DeleteFunc(out, func(_ labelKey, s labelState) bool { return s.label == "" })
	return out
}
