package encoder

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every token is in one group at its position, and the padding stays within its limits.
func TestGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		lengths := make([]int64, 1+rng.IntN(60))
		var tokens int64
		for i := range lengths {
			lengths[i] = 1 + rng.Int64N([]int64{3, 50, 500}[rng.IntN(3)])
			tokens += lengths[i]
		}
		slices.Sort(lengths)
		var seen int64
		sequence := 0
		for _, g := range groupsOf(lengths) {
			own := lengths[sequence : sequence+int(g.count)]
			sequence += int(g.count)
			seen += g.tokens
			if g.length != own[len(own)-1] {
				t.Fatalf("a group of %v has length %d", own, g.length)
			}
			padding := g.count*g.length - g.tokens
			if float64(padding) > paddingShare*float64(g.tokens) && padding > paddingTokens {
				t.Errorf("%d of padding for %d tokens", padding, g.tokens)
			}
			if (padding > 0) != (g.from != nil) {
				t.Fatalf("%d of padding, but from is %v", padding, g.from)
			}
			for row, place := range g.to {
				if g.from[place] != int64(row) || g.mask[place] != 0 {
					t.Fatalf("row %d is at %d, where row %d is, mask %v", row, place, g.from[place], g.mask[place])
				}
				if k := place % g.length; k >= own[place/g.length] {
					t.Fatalf("row %d is padding", row)
				}
			}
			masked := int64(0)
			for _, m := range g.mask {
				if math.IsInf(float64(m), -1) {
					masked++
				}
			}
			if masked != padding {
				t.Errorf("%d positions masked, want %d", masked, padding)
			}
		}
		if sequence != len(lengths) || seen != tokens {
			t.Fatalf("%d of %d sequences, %d of %d tokens", sequence, len(lengths), seen, tokens)
		}
	}
}
