package retrain

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/feedback"
)

func TestWindowComparesWithTheFirstScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := NewWindow("v1")
	for range WindowSize {
		w.Add("v1", rng.Float64())
	}
	assert.Equal(t, Drift{PValue: 1}, w.Drift(), "nothing to compare yet")
	for range 3 * WindowSize {
		w.Add("v1", rng.Float64())
		w.Add("v0", 1)
		w.Add("v1", math.NaN())
	}
	same := w.Drift()
	assert.Equal(t, WindowSize, same.Recent)
	assert.Less(t, same.Distance, 0.08)
	assert.Greater(t, same.PValue, driftLevel)

	for range WindowSize {
		w.Add("v1", math.Sqrt(rng.Float64())) // distance 1/4 from uniform
	}
	moved := w.Drift()
	assert.InDelta(t, 0.25, moved.Distance, 0.06)
	assert.Less(t, moved.PValue, 1e-9)
}

func TestWindowTakesAReference(t *testing.T) {
	low, high := make([]float64, WindowSize), make([]float64, WindowSize)
	for i := range WindowSize {
		low[i], high[i] = float64(WindowSize-i)/(2*WindowSize), 0.5+float64(i+1)/(2*WindowSize)
	}
	w := NewWindow("v1")
	for _, score := range high[:100] { // collected until the reference is set
		w.Add("v1", score)
	}
	_, gathered := w.Reference()
	assert.Nil(t, gathered)
	w.SetReference("v2", high)
	w.SetReference("v1", low)
	w.SetReference("v1", high) // too late
	version, reference := w.Reference()
	assert.Equal(t, "v1", version)
	assert.Equal(t, slices.Sorted(slices.Values(low)), reference)
	d := w.Drift()
	assert.Equal(t, Drift{Reference: WindowSize, Recent: 100, Distance: 1, PValue: d.PValue}, d)
	assert.Less(t, d.PValue, 1e-20)

	w.Reset("v2", high)
	w.Add("v1", 0)
	assert.Zero(t, w.Drift().Recent)
	w.Add("v2", 0.75)
	assert.Equal(t, 1, w.Drift().Recent)
}

// The expected values are those of SciPy's special.kolmogorov.
func TestKolmogorov(t *testing.T) {
	const n = 1 << 60 // where the correction for small samples vanishes
	root := math.Sqrt(n / 2)
	for lambda, want := range map[float64]float64{
		0.1: 1, 0.5: 0.9639452436648751, 1: 0.26999967167735456, 1.358: 0.05002679733444698, 2: 0.0006709252557796953,
	} {
		assert.InDelta(t, want, kolmogorov(lambda/root, n, n), 1e-9, "lambda %v", lambda)
	}
	assert.Equal(t, 1.0, kolmogorov(0, 10, 10))
}

func TestTallyCountsAResponseOnce(t *testing.T) {
	tally := NewTally("v1")
	a, b := feedback.HashOf("a"), feedback.HashOf("b")
	tally.Add("v1", a, true, false)
	tally.Add("v1", b, true, true)
	tally.Add("v0", feedback.HashOf("c"), true, false)
	assert.Equal(t, Disagreement{Labels: 2, Against: 1}, tally.Disagreement())
	tally.Add("v1", a, false, false) // a correction
	assert.Equal(t, Disagreement{Labels: 2}, tally.Disagreement())
	for i := range 3 * TallySize {
		tally.Add("v1", feedback.HashOf(string(rune('0'+i%7))+string(rune(1000+i))), i%4 == 0, false)
	}
	d := tally.Disagreement()
	assert.Equal(t, Disagreement{Labels: TallySize, Against: TallySize / 4}, d)
	require.Len(t, tally.against, TallySize)
	tally.Reset("v2")
	assert.Zero(t, tally.Disagreement())
}

func TestDisagreementInterval(t *testing.T) {
	assert.Zero(t, Disagreement{}.Rate())
	assert.Zero(t, Disagreement{}.Lower())
	assert.InDelta(t, 0.5, Disagreement{Labels: 10, Against: 5}.Rate(), 1e-12)
	assert.InDelta(t, 0.2366, Disagreement{Labels: 10, Against: 5}.Lower(), 1e-4) // Wilson's
	assert.Zero(t, Disagreement{Labels: 10}.Lower())
}

func TestWindowAndTallyConcurrently(t *testing.T) {
	w, tally := NewWindow("v1"), NewTally("v1")
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 2000 {
				w.Add("v1", float64(i)/2000)
				tally.Add("v1", feedback.HashOf(string(rune(i))), i%2 == 0, n%2 == 0)
				if i%500 == 0 {
					w.Drift()
					w.Reference()
					tally.Disagreement()
				}
				if i == 1000 && n == 0 {
					w.Reset("v1", nil)
					tally.Reset("v1")
				}
			}
		})
	}
	all.Wait()
	assert.Positive(t, tally.Disagreement().Labels)
}

func BenchmarkWindowAdd(b *testing.B) {
	w := NewWindow("v1")
	for b.Loop() {
		w.Add("v1", 0.5)
	}
}

func BenchmarkWindowDrift(b *testing.B) {
	w := NewWindow("v1")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2 * WindowSize {
		w.Add("v1", rng.Float64())
	}
	for b.Loop() {
		w.Drift()
	}
}
