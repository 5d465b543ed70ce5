package train

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"assay/rewardmodel"
)

func bagOf(violation bool, instances ...int32) Bag {
	b := Bag{Violation: violation}
	for _, id := range instances {
		b.Instances = append(b.Instances, []int32{id})
	}
	return b
}

func TestComparisonParts(t *testing.T) {
	tests := map[string]struct{ violating, compliant, parts int }{
		"a pair":               {1, 1, 1},
		"one against many":     {1, 40, 1},
		"as many":              {20, 20, 5},
		"more compliant":       {4, 60, 4},
		"larger than one part": {5, 4, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var all Comparison
			for id := range tt.violating + tt.compliant {
				all = append(all, bagOf(id < tt.violating, int32(id)))
			}
			parts := all.parts(rand.New(rand.NewPCG(1, 2)))
			if len(parts) != tt.parts {
				t.Errorf("%d parts, want %d", len(parts), tt.parts)
			}
			seen := map[int32]bool{}
			for _, part := range parts {
				labels := map[bool]int{}
				for _, b := range part {
					labels[b.Violation]++
					seen[b.Instances[0][0]] = true
				}
				if labels[true] == 0 || labels[false] == 0 {
					t.Errorf("a part has %d violating and %d compliant bags", labels[true], labels[false])
				}
			}
			if len(seen) != len(all) {
				t.Errorf("%d of %d bags are in a part", len(seen), len(all))
			}
		})
	}
}

func TestEveryComparisonIsInOneStep(t *testing.T) {
	for _, steps := range []int{1, 3, 7, 50} {
		var d Data
		for id := range int32(17) {
			d.Comparisons = append(d.Comparisons, Comparison{bagOf(true, id), bagOf(false, 100+id)})
		}
		c := d.compareWith(1, steps, rand.New(rand.NewPCG(3, 4)))
		seen, most := map[int32]int{}, 0
		for range steps + 2 {
			parts := c.next()
			most = max(most, len(parts))
			for _, p := range parts {
				seen[p[0].Instances[0][0]]++
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%d steps: comparison %d is in %d", steps, id, n)
			}
		}
		if len(seen) != 17 || most > 17/steps+1 {
			t.Errorf("%d steps have %d of 17 comparisons, up to %d at once", steps, len(seen), most)
		}
	}
}

func TestComparisonLossHasTheGradientOfItsValue(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	parts := []Comparison{
		{bagOf(true, 1, 2), bagOf(true, 3), bagOf(false, 4, 5, 6)},
		{bagOf(false, 7), bagOf(false, 8), bagOf(true, 9)},
	}
	logits := make([][2]float32, 9)
	for i := range logits {
		logits[i] = [2]float32{float32(rng.NormFloat64()), float32(rng.NormFloat64())}
	}
	_, grads := comparisonLoss(parts, logits)
	const h = 1e-3
	for i := range logits {
		for j := range 2 {
			moved := append([][2]float32{}, logits...)
			moved[i][j] += h
			up, _ := comparisonLoss(parts, moved)
			moved[i][j] -= 2 * h
			down, _ := comparisonLoss(parts, moved)
			if want := (up - down) / (2 * h); math.Abs(want-float64(grads[i][j])) > 1e-3 {
				t.Errorf("gradient of logit %d,%d is %v, want %v", i, j, grads[i][j], want)
			}
		}
	}
}

// What violates in the comparisons is not what violates in the bags: a run learns both, and without the comparisons only one.
func TestRunLearnsFromComparisons(t *testing.T) {
	data, _ := syntheticBags(60, 2)
	const worse, better = 1, 2 // tokens that no bag has
	for range 40 {
		data.Comparisons = append(data.Comparisons, Comparison{bagOf(true, worse), bagOf(false, better)})
	}
	for _, lambda := range []float64{0, DefaultLambdaComparison} {
		l := newLinear()
		result, err := Run(t.Context(), l, data, Config{
			Method: DefaultBFGPU(), Epochs: 5, Batch: 16, Rate: 0.5, Threshold: PerBag, LambdaComparison: lambda,
		})
		if err != nil {
			t.Fatal(err)
		}
		logits := l.pairs([][]int32{{worse}, {better}, {badToken}, {badToken + 1}})
		if apart := margin(logits[0]) - margin(logits[1]); lambda == 0 && apart != 0 || lambda > 0 && apart < 2 {
			t.Errorf("lambda %g: the compared responses are %g apart", lambda, apart)
		}
		if margin(logits[2]) < margin(logits[3])+1 {
			t.Errorf("lambda %g: the labels are not learned: margins %g and %g", lambda, margin(logits[2]), margin(logits[3]))
		}
		if len(result.FittedOn.Bags) != len(data.Bags) {
			t.Errorf("lambda %g: the threshold is fitted to %d bags, want the %d with labels of their own", lambda, len(result.FittedOn.Bags), len(data.Bags))
		}
	}
}

func TestComparisonsNeedScoresOfInstances(t *testing.T) {
	data, _ := syntheticBags(4, 1)
	data.Comparisons = []Comparison{{bagOf(true, 1), bagOf(false, 2)}}
	_, err := Run(t.Context(), newLinear(), data, Config{Method: wholeBags{}, Epochs: 1, Batch: 4, Rate: 1, Threshold: Fixed, LambdaComparison: 1})
	if err == nil || !strings.Contains(err.Error(), "comparisons") {
		t.Errorf("got %v, want an error about the comparisons", err)
	}
}

func TestComparisonsJoinAMiniBatch(t *testing.T) {
	d := Data{Comparisons: []Comparison{{bagOf(true, 1, 2), bagOf(false, 3)}}}
	c := d.compareWith(2, 1, rand.New(rand.NewPCG(7, 8)))
	own := func(logits [][2]float32) (float64, [][2]float32) {
		if len(logits) != 1 {
			t.Errorf("the loss of the mini-batch sees %d logits, want 1", len(logits))
		}
		return 10, make([][2]float32, len(logits))
	}
	batch, loss := c.join([]rewardmodel.Sequence{{IDs: []int32{9}}}, own)
	if len(batch) != 4 {
		t.Fatalf("%d sequences, want 4", len(batch))
	}
	// The part has its violating bag first; its witness is the second instance.
	value, grads := loss([][2]float32{{0, 0}, {-1, 0}, {1, 0}, {0.5, 0}})
	if want := 10 + 2*math.Log1p(math.Exp(-0.5)); math.Abs(value-want) > 1e-6 {
		t.Errorf("loss %v, want %v", value, want)
	}
	if grads[1] != [2]float32{} || grads[2][0] >= 0 || grads[3][0] <= 0 || grads[2][0] != -grads[3][0] {
		t.Errorf("gradients %v: want only the witnesses moved apart", grads)
	}
}

// Of two aspects, only the first has comparisons: they move its scores apart, and both still learn their labels from the same
// mini-batches.
func TestComparisonsOfOneAspect(t *testing.T) {
	const worse, better = 1, 2 // tokens that no bag has
	first, second := twoAspects(60, 2)
	for range 40 {
		first.Comparisons = append(first.Comparisons, Comparison{bagOf(true, worse), bagOf(false, better)})
	}
	l := newShared(2)
	l.coupling = 0
	_, err := RunAspects(t.Context(), l, []*Data{first, second}, Config{
		Method: DefaultBFGPU(), Epochs: 5, Batch: 16, Rate: 0.5, Threshold: PerBag, LambdaComparison: DefaultLambdaComparison,
	})
	if err != nil {
		t.Fatal(err)
	}
	apart := func(aspect int, a, b int32) float64 { return l.heads[aspect][a] - l.heads[aspect][b] }
	if got := apart(0, worse, better); got < 2 {
		t.Errorf("the compared responses are %g apart in the aspect with comparisons", got)
	}
	if got := apart(1, worse, better); got != 0 {
		t.Errorf("the compared responses are %g apart in the other aspect", got)
	}
	if a, b := apart(0, badToken, badToken+1), apart(1, otherToken, badToken+2); a < 0.5 || b < 0.5 {
		t.Errorf("the labels are not learned: margins differ by %g and %g", a, b)
	}
}

// An aspect without labels is kept on the comparisons of the others too.
func TestComparisonsWithAKeptAspect(t *testing.T) {
	const worse, better = 1, 2 // tokens that no bag has
	first, _ := twoAspects(60, 2)
	for range 40 {
		first.Comparisons = append(first.Comparisons, Comparison{bagOf(true, worse), bagOf(false, better)})
	}
	l := newShared(2)
	_, err := RunAspects(t.Context(), l, []*Data{first, nil}, Config{
		Method: DefaultBFGPU(), Epochs: 5, Batch: 16, Rate: 0.5, Threshold: PerBag, LambdaComparison: DefaultLambdaComparison,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.heads[0][worse] - l.heads[0][better]; got < 2 {
		t.Errorf("the compared responses are %g apart", got)
	}
	logits, err := l.Logits([]rewardmodel.Sequence{{IDs: []int32{worse}}, {IDs: []int32{better}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range logits {
		if m := margin([2]float32(row[2:])); math.Abs(m) > 0.3 {
			t.Errorf("the kept aspect has the margin %g on response %d, and 0 before", m, i)
		}
	}
}
