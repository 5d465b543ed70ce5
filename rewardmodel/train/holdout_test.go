package train

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A bag that is labeled for several aspects is held out for all of them or for none, and each label of each aspect has its share.
func TestHoldOutOfSeveralAspects(t *testing.T) {
	first, second := &Data{}, &Data{}
	for i := range 400 {
		b := Bag{Violation: i%4 == 0, Instances: [][]int32{{int32(i)}}}
		if i < 300 {
			first.Bags = append(first.Bags, b)
		}
		if b.Violation = i%3 == 0; i >= 100 {
			second.Bags = append(second.Bags, b)
		}
	}
	decided := map[sameSequence]bool{}
	held := map[int32]bool{}
	for _, d := range []*Data{first, second} {
		rest, out := d.holdOut(0.25, 7, decided)
		require.Len(t, d.Bags, len(rest.Bags)+len(out.Bags))
		violating, compliant, _, _ := out.Counts()
		all, allCompliant, _, _ := d.Counts()
		require.InDelta(t, 0.25, float64(violating)/float64(all), 0.1)
		require.InDelta(t, 0.25, float64(compliant)/float64(allCompliant), 0.1)
		for _, part := range []*Data{rest, out} {
			for _, b := range part.Bags {
				id := b.Instances[0][0]
				was, known := held[id]
				require.True(t, !known || was == (part == out), "bag %d is on both sides", id)
				held[id] = part == out
			}
		}
	}
}
