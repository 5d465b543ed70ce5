package eval

import (
	"cmp"
	"slices"

	"assay/rewardmodel/bag"
)

// overlap compares a flagged span with gold ones, by characters (code points).
type overlap struct {
	iou float64 // characters in both / characters in either
	f1  float64 // harmonic mean of the precision and the recall of characters
}

// located reports whether the bag is a violation with gold spans.
func (b BagScores) located() bool {
	return b.Label == bag.Violation && b.Spans != nil && len(b.GoldSpans) > 0
}

// spanOverlap compares the witness, the instance that scores highest, with the
// union of the gold spans; best is the largest IoU that any instance of the bag
// reaches. Instances that tie for the highest share the result. A bag without
// instances has 0.
func spanOverlap(b BagScores) (witness overlap, best float64) {
	gold := union(b.GoldSpans)
	top, ties := b.Violation(), 0
	for i, span := range b.Spans {
		o := compare(span, gold)
		best = max(best, o.iou)
		if b.Violations[i] == top {
			ties++
			witness.iou += o.iou
			witness.f1 += o.f1
		}
	}
	if ties > 0 {
		witness.iou /= float64(ties)
		witness.f1 /= float64(ties)
	}
	return witness, best
}

// compare measures a span against others that are disjoint and not all empty.
func compare(span [2]int, gold [][2]int) overlap {
	both, all := 0, span[1]-span[0]
	for _, g := range gold {
		all += g[1] - g[0]
		both += max(0, min(span[1], g[1])-max(span[0], g[0]))
	}
	return overlap{iou: ratio(both, all-both), f1: ratio(2*both, all)}
}

// union returns disjoint spans in order that cover what the given ones cover.
func union(spans [][2]int) [][2]int {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	out := sorted[:0]
	for _, s := range sorted {
		if n := len(out); n > 0 && s[0] <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], s[1])
		} else {
			out = append(out, s)
		}
	}
	return out
}
