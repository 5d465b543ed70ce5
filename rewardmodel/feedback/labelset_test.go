package feedback_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// A sender that invents aspects, or that labels many of them in every combination,
// costs no memory beyond that of the records.
func TestLabelsOfAspectsTakeNoMemory(t *testing.T) {
	const records = 20_000
	size := func(labels func(*rand.Rand) map[string]bag.Label) float64 {
		rng := rand.New(rand.NewPCG(1, 1))
		before := heap()
		x := feedback.NewIndex()
		for i := range records {
			m := mark(fmt.Sprint(i), "r", true, 0, uint64(i+1))
			m.Labels.Aspects = labels(rng)
			x.Apply(m)
		}
		defer runtime.KeepAlive(x)
		return float64(heap()-before) / records
	}
	plain := size(func(*rand.Rand) map[string]bag.Label { return nil })
	for name, of := range map[string]func(*rand.Rand) string{
		"combinations": func(rng *rand.Rand) string { return fmt.Sprint("aspect-", rng.IntN(40)) },
		"names":        func(rng *rand.Rand) string { return fmt.Sprint("aspect-", rng.Uint64()) },
	} {
		got := size(func(rng *rand.Rand) map[string]bag.Label {
			out := map[string]bag.Label{}
			for range 16 {
				out[of(rng)] = labelOf(rng.IntN(2) == 0)
			}
			return out
		})
		require.Less(t, got, plain+20, "%s: bytes per record, %v without aspects", name, plain)
	}
}

// The labels of a store may name aspects that no model has yet, but not any number of
// them.
func TestPlaceLimitsAspects(t *testing.T) {
	x := feedback.NewIndex()
	labeled := func(aspect string) feedback.Record {
		return feedback.Record{Bag: bag.Bag{ID: "of " + aspect, Labels: map[string]bag.Label{aspect: bag.Violation}, Response: "x"}}
	}
	for i := range feedback.MaxAspects {
		m := place(x, labeled(fmt.Sprint("a", i)))
		m.Sequence = uint64(i + 1)
		x.Apply(m)
	}
	_, err := x.Place(labeled("one-more"))
	require.ErrorContains(t, err, `labels: "one-more" is a new aspect, and the labels of this store name 48 others, the maximum; use one of them`)
	m := place(x, labeled("a7"))
	v, _ := x.Check(m)
	require.Equal(t, feedback.Duplicate, v)
	require.Equal(t, 1, x.Stats(feedback.Split{}, 0, "a7", "a8").Aspects["a7"].Violations)

	// Before any of them is stored, as in one batch.
	x = feedback.NewIndex()
	for i := range feedback.MaxAspects {
		place(x, labeled(fmt.Sprint("a", i)))
	}
	_, err = x.Place(labeled("one-more"))
	require.Error(t, err)
	_, err = x.Place(feedback.Record{Bag: bag.Bag{ID: "plain", Label: bag.Violation, Response: "x"}})
	require.NoError(t, err)
}
