package chaos_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"assay/queue"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
)

// history is what clients observed.
type history struct {
	mu         sync.Mutex
	began      time.Time
	lines      []string
	phases     []phase
	violations []string
	losses     []loss // that damage of stored files may explain
	numbers    map[string]int

	labels    map[labelKey]labelState
	confirmed map[labelKey]time.Duration    // when the last operation on a label was acknowledged
	published map[string]string             // acknowledged responses: text by id
	attempted map[string]string             // all of them
	rewards   map[string]map[string]float64 // by version and text
	numerics  map[string]string             // by version, where it is known
	registry  []porcupine.Operation         // see registry_test.go
}

// labelKey names a label: a response and a rater.
type labelKey struct{ id, rater string }

// labelState is the last acknowledged operation on a label.
type labelState struct {
	label bag.Label // "": withdrawn or erased
	text  string
}

// newHistory returns an empty history; the numerics of versions are those of calm runs.
func newHistory(numerics map[string]string) *history {
	return &history{began: time.Now(), numbers: map[string]int{}, labels: map[labelKey]labelState{}, confirmed: map[labelKey]time.Duration{}, published: map[string]string{},
		attempted: map[string]string{}, rewards: map[string]map[string]float64{}, numerics: maps.Collect(maps.All(numerics))}
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
	what    string                    // identifies it
	details string                    // how it was noticed
	streams []string                  // whose damage would explain it
	about   func(subject string) bool // whether the damage of a record of a subject would; nil: of any
}

// lost records a loss, once.
func (h *history) lost(l loss, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(h.losses, func(other loss) bool { return other.what == l.what }) {
		return
	}
	l.details = fmt.Sprintf(format, args...)
	h.losses = append(h.losses, l)
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

// tolerance is how far two computations of a reward may differ without numerics: sums in another order.
const tolerance = 1e-4

// scored records a reward. A version must return the same one for a text each time, and have the same numerics: all
// processes of a schedule are of one program on one machine.
func (h *history) scored(by string, of rewardmodel.ModelInfo, text string, reward float64) {
	h.mu.Lock()
	rewards := h.rewards[of.Version]
	if rewards == nil {
		rewards = map[string]float64{}
		h.rewards[of.Version] = rewards
	}
	before, known := rewards[text]
	if !known {
		rewards[text] = reward
	}
	h.numbers["rewards: "+by]++
	numerics := h.numerics[of.Version]
	if numerics == "" {
		h.numerics[of.Version] = of.Numerics
	}
	h.mu.Unlock()
	if of.Numerics != "" && numerics != "" && of.Numerics != numerics {
		h.violate("%s: version %s has the numerics %s, before they were %s", by, of.Version, of.Numerics, numerics)
	}
	if known && !same(numerics, before, reward) {
		h.violate("%s: version %s computes %v for %q, before it was %v", by, of.Version, reward, text, before)
	}
}

// same reports whether two computations of a reward agree: exactly, where their version has numerics.
func same(numerics string, a, b float64) bool {
	return a == b || numerics == "" && a-b < tolerance && b-a < tolerance
}

// computed compares the rewards of a version with those that it computes without faults.
func (h *history) computed(version string, calm scores) {
	h.mu.Lock()
	rewards, numerics := h.rewards[version], cmp.Or(h.numerics[version], calm.numerics)
	h.mu.Unlock()
	for text, reward := range rewards {
		if !same(numerics, reward, calm.rewards[text]) {
			h.violate("version %s computed %v for %q, without faults %v", version, reward, text, calm.rewards[text])
		}
	}
	how := "bit by bit"
	if numerics == "" {
		how = fmt.Sprintf("within %g", tolerance)
	}
	h.count("texts compared with a calm run, "+how, len(rewards))
}

// answers are what the streams have of each response.
type answers struct {
	rewards map[string][]uint64 // the sequence of the response of each
	dead    map[string][]queue.Reason
	// forgetful: a clock jumped, so that the server may have taken a response that was published again for a new one.
	forgetful bool
}

// When a harmless response can become a dead letter, see docs/nats.md.
const (
	crashDeaths = 4 // three with it in flight, and then one that scores it in isolation, each of which costs at most one response
	fatalDeaths = 6 // every response that was in flight at so many becomes one
)

// answered checks that each response has exactly one reward or dead letter. modelFailed: the model failed on everything for
// a while, so that a response can have a dead letter (model), and a reward too if a process died right then.
func (h *history) answered(a answers, deaths int, modelFailed bool) {
	h.mu.Lock()
	published, attempted := h.published, h.attempted
	h.mu.Unlock()
	for id := range published {
		if len(a.rewards[id]) == 0 && len(a.dead[id]) == 0 {
			h.lost(loss{what: "reward of " + id, streams: []string{queue.StreamRewards, queue.StreamResponses}}, "it has no dead letter either")
		}
	}
	for id, of := range a.rewards {
		slices.Sort(of)
		if responses := len(slices.Compact(slices.Clone(of))); a.forgetful && responses == len(of) {
			h.count("responses published again and scored again, since a clock jumped", responses-1)
		} else if len(of) > 1 {
			h.violate("%d rewards of %s, of the responses %v", len(of), id, of)
		}
	}
	crashed := 0
	for id, reasons := range a.dead {
		if _, ours := attempted[id]; !ours {
			h.violate("a dead letter of %q, which nobody published", id)
		}
		if len(reasons) > 1 {
			h.violate("%d dead letters of %s: %v", len(reasons), id, reasons)
		}
		for _, reason := range reasons {
			h.count("dead letters: "+string(reason), 1)
			allowed := reason == queue.ReasonModel && modelFailed
			if reason == queue.ReasonCrash {
				crashed++
				allowed = deaths >= crashDeaths
			}
			switch {
			case !allowed:
				h.violate("a dead letter %s of %s, after %d deaths", reason, id, deaths)
			case len(a.rewards[id]) == 0:
			case reason == queue.ReasonModel:
				h.count("responses with a reward and a dead letter (model)", 1)
			default:
				h.violate("%s has a reward and a dead letter %s", id, reason)
			}
		}
	}
	if crashed > max(0, deaths-crashDeaths+1) && deaths < fatalDeaths {
		h.violate("%d dead letters crash after %d deaths", crashed, deaths)
	}
}

// labeled records an acknowledged operation on labels.
func (h *history) labeled(key labelKey, state labelState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.labels[key], h.confirmed[key] = state, time.Since(h.began)
}

// phase is a part of a schedule that has ended.
type phase struct {
	name string
	took time.Duration
}

// reached ends a phase.
func (h *history) reached(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	took := time.Since(h.began)
	for _, p := range h.phases {
		took -= p.took
	}
	h.phases = append(h.phases, phase{name, took})
}

// times is how long each phase took.
func (h *history) times() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	b.WriteString("time:")
	for _, p := range h.phases {
		fmt.Fprintf(&b, " %s %.1f s;", p.name, p.took.Seconds())
	}
	return strings.TrimSuffix(b.String(), ";")
}

// label is the last acknowledged operation on a label, and when it was acknowledged.
func (h *history) label(key labelKey) (labelState, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.labels[key], h.confirmed[key].Round(time.Millisecond)
}

// inForce are the labels that must exist.
func (h *history) inForce() map[labelKey]labelState {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := maps.Clone(h.labels)
	maps.DeleteFunc(out, func(_ labelKey, s labelState) bool { return s.label == "" })
	return out
}
