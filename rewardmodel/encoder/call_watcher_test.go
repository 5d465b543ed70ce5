package encoder

import (
	"slices"
	"testing"
)

// calls records what a Runtime reports.
type calls struct{ began, ended []int }

func (c *calls) Begin(sequences, tokens int) { c.began = append(c.began, sequences, tokens) }
func (c *calls) End()                        { c.ended = append(c.ended, len(c.began)) }
func (c *calls) Broken(err error)            { panic(err) }

// Each scoring forward pass is reported with its size, even if it fails; loading and training steps are not.
func TestRuntimeReportsScoring(t *testing.T) {
	const dir = "../checkpoint/testdata/roberta-two"
	var c calls
	r, err := NewRuntime(RuntimeOptions{Threads: 2, Device: "cpu", Watch: &c})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.Load(openCheckpoint(t, dir), FP32)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	l, err := r.NewLearner(openCheckpoint(t, dir), LearnerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	batch := sequences([]int32{0, 5, 6, 2}, []int32{0, 7, 2})
	if _, err := l.Step(batch, 1e-3, alternatingLoss); err != nil {
		t.Fatal(err)
	}
	if len(c.began) != 0 {
		t.Fatalf("loading and training report %v", c.began)
	}
	if _, err := m.Margins(batch); err != nil {
		t.Fatal(err)
	}
	if want := []int{2, 7}; !slices.Equal(c.began, want) || !slices.Equal(c.ended, []int{2}) {
		t.Errorf("reported %v, ended at %v; want one call of %v", c.began, c.ended, want)
	}
}
