package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// commonSeeds returns the seeds that every row with runs at a sigma_micro has there, ascending: on these all rows have
// the same bags, so that rows with few and with many seeds can be compared.
func commonSeeds(rows []series, sigma int) []uint64 {
	var common []uint64
	first := true
	for _, s := range rows {
		runs := s.at[sigma]
		if len(runs) == 0 {
			continue
		}
		if first {
			common, first = seedsOf(runs), false
			continue
		}
		has := seedsOf(runs)
		common = slices.DeleteFunc(common, func(seed uint64) bool { return !slices.Contains(has, seed) })
	}
	return common
}

// sameSeeds reports whether every row with runs at a sigma_micro has exactly these seeds.
func sameSeeds(rows []series, sigma int, seeds []uint64) bool {
	return !slices.ContainsFunc(rows, func(s series) bool {
		return len(s.at[sigma]) > 0 && !slices.Equal(seedsOf(s.at[sigma]), seeds)
	})
}

// seedsOf returns the seeds of runs, which are in the order of their seeds.
func seedsOf(runs []Record) []uint64 {
	out := make([]uint64, len(runs))
	for i, r := range runs {
		out[i] = r.Spec.Seed
	}
	return out
}

// onSeeds returns the runs with these seeds.
func onSeeds(runs []Record, seeds []uint64) []Record {
	return slices.DeleteFunc(slices.Clone(runs), func(r Record) bool { return !slices.Contains(seeds, r.Spec.Seed) })
}

// seedsTitle is "seed 0" or "seeds 0, 1, 2".
func seedsTitle(seeds []uint64) string {
	text := make([]string, len(seeds))
	for i, seed := range seeds {
		text[i] = fmt.Sprint(seed)
	}
	if len(seeds) == 1 {
		return "seed " + text[0]
	}
	return "seeds " + strings.Join(text, ", ")
}

// testBags returns the smaller number of test bags of a class in the group at a sigma_micro, and the largest standard
// error of an AvgAcc on the test bags of one seed, in percent: that of recalls of one half.
func (g group) testBags(sigma int) (bags int, standardError float64) {
	for _, s := range g.series {
		for _, r := range s.at[sigma] {
			c := r.Counts
			if c.TestViolation > 0 && c.TestCompliant > 0 {
				return min(c.TestViolation, c.TestCompliant), 25 * math.Sqrt(1/float64(c.TestViolation)+1/float64(c.TestCompliant))
			}
		}
	}
	return 0, math.NaN()
}

// testBagsLine says how much the numbers of a group are worth.
func (g group) testBagsLine() string {
	var parts []string
	for _, sigma := range g.sigmas {
		if bags, standardError := g.testBags(sigma); bags > 0 {
			parts = append(parts, fmt.Sprintf("%d at %s (standard error of an AvgAcc at most %.1f)", bags, sigmaTitle(sigma), standardError))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Test bags of each class: " + strings.Join(parts, ", ") + ".\n"
}
