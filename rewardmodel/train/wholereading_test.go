package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A bag that is also read as a whole has the scores of its utterances, the worst of which is at least as anomalous as the
// whole, like in the service; the whole is never its compliant pseudo label, and does not count as one more utterance.
func TestBagsThatAreReadAsAWhole(t *testing.T) {
	l := newLinear()
	for id, m := range map[int]float64{1: -1, 2: 0.5, 3: 2, 4: -3} {
		l.Weights[id] = [2]float64{m, 0}
	}
	bag := func(violation, whole bool, ids ...int32) Bag {
		b := bagOf(violation, ids...)
		b.ReadsWhole = whole
		return b
	}
	for name, c := range map[string]struct {
		bag   Bag
		want  []float64
		least int // of its pseudo labels
	}{
		"a larger margin":  {bag(true, true, 1, 2, 3), []float64{-1, 2}, 0},
		"a smaller margin": {bag(true, true, 1, 2, 4), []float64{-1, 0.5}, 0},
		"no whole":         {bag(true, false, 1, 2, 4), []float64{-1, 0.5, -3}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			data := &Data{Bags: []Bag{c.bag, bagOf(false, 1)}}
			n := &Network{Data: data, ctx: t.Context(), learner: aspectLearner{learner: l}}
			scores, err := scoreInstances(n)
			if err != nil {
				t.Fatal(err)
			}
			if got := scores[0]; !slices.Equal(got.Instances, c.want) || got.Bag != slices.Max(c.want) {
				t.Errorf("scores %+v, want %v", got, c.want)
			}
			margins, err := n.Margins([]int{0})
			if err != nil {
				t.Fatal(err)
			}
			e := &Epoch{Network: *n, RNG: rand.New(rand.NewPCG(1, 2)), compliant: []int{1}}
			if got := e.pseudoLabels(0, margins[0]); got[1].instance != c.least || got[1].violation {
				t.Errorf("pseudo labels %+v, want instance %d compliant", got, c.least)
			}
			if micro, _ := data.sigmas(); micro != float64(len(c.want)-1) {
				t.Errorf("sigma_micro %v, want %d", micro, len(c.want)-1)
			}
			r := Result{FittedOn: data, LengthSlope: 1, Scores: scores}
			if odds, _ := r.LogOdds(); math.Abs(odds[0]-(math.Log(float64(len(c.want)))-slices.Max(c.want))) > 1e-12 {
				t.Errorf("log-odds %v do not follow the number of utterances", odds[0])
			}
		})
	}
}
