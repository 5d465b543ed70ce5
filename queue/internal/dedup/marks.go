package dedup

import (
	"maps"
	"slices"
	"time"
)

// maxMarks is how many marks are kept: of a stream that always has work, the last minutes one by one, and fewer of the
// hours before.
const maxMarks = 64

// Marks relate the order of responses to that of their results without a clock, which may jump.
type Marks struct {
	Created time.Time `json:"created"` // of the stream of responses; of another stream they say nothing
	Marks   []Mark    `json:"marks"`   // in the order of Response
}

// Mark says that the results up to these sequences, by stream, were stored before any response behind Response was. So the
// results of those responses are behind them.
type Mark struct {
	Response uint64            `json:"response"`
	Results  map[string]uint64 `json:"results"`
}

// Before returns the last results, by stream, before those of the given response and of later ones; nil: it is not known.
func (m Marks) Before(response uint64) map[string]uint64 {
	for _, mark := range slices.Backward(m.Marks) {
		if mark.Response < response {
			return mark.Results
		}
	}
	return nil
}

// Add adds the latest mark, and reports whether it says more than the others.
func (m *Marks) Add(next Mark) bool {
	if n := len(m.Marks); n > 0 && m.Marks[n-1].behind(next) { // a stream of results was created again, or has lost its end
		m.Marks = nil
	}
	// Sequences are used again by a stream of responses that has lost its end.
	m.Marks = slices.DeleteFunc(m.Marks, func(mark Mark) bool { return mark.Response > next.Response })
	if n := len(m.Marks); n > 0 && m.Marks[n-1].Response == next.Response {
		same := maps.Equal(m.Marks[n-1].Results, next.Results)
		m.Marks[n-1] = next // no response was stored in the meantime
		return !same
	}
	m.Marks = append(m.Marks, next)
	if len(m.Marks) > maxMarks { // the first and every second of the older half are left
		older := m.Marks[:maxMarks/2]
		thinned := make([]Mark, 0, maxMarks)
		for i := 0; i < len(older); i += 2 {
			thinned = append(thinned, older[i])
		}
		m.Marks = append(thinned, m.Marks[maxMarks/2:]...)
	}
	return true
}

// behind reports whether a stream of results ends before the mark in a later one.
func (m Mark) behind(later Mark) bool {
	for stream, last := range m.Results {
		if later.Results[stream] < last {
			return true
		}
	}
	return false
}
