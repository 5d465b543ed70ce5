package calibration

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// How Fit places its knots: at most 15 with the one at 0.
const (
	// MinSide is the minimum number of values of each model on a side of 0 for
	// that side to be mapped.
	MinSide = 20
	perKnot = 10 // values of a side for each of its knots
	maxSide = 7  // knots of a side

	// A larger slope amplifies the noise of scores that hardly differ; its
	// inverse is the minimum, so that scores that differ stay apart.
	fitSlope = 10
	// Knots closer than this, in log-odds, are one.
	minGap = 1e-3
)

// Fit returns the map that transforms from to the distribution of to, separately on each
// side of 0: it maps quantiles of the positive values of from to the same
// quantiles of those of to, and likewise for the negative ones. The values are
// log-odds, in any order; they need not be of the same responses. A side with
// fewer than MinSide values in either stays as it is, and slopes are kept
// between 1/10 and 10. Values that are 0 or not finite are ignored.
func Fit(from, to []float64) Map {
	below, belowTo := fitSide(side(from, -1), side(to, -1))
	above, aboveTo := fitSide(side(from, 1), side(to, 1))
	if len(below)+len(above) == 0 {
		return Map{}
	}
	return Map{From: join(below, above), To: join(belowTo, aboveTo)}
}

// side returns the finite values of the given sign, without it, sorted.
func side(values []float64, sign float64) []float64 {
	var out []float64
	for _, v := range values {
		if v *= sign; v > 0 && !math.IsInf(v, 1) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// fitSide returns the knots of one side, by distance from 0.
func fitSide(from, to []float64) (x, y []float64) {
	values := min(len(from), len(to))
	if values < MinSide {
		return nil, nil
	}
	knots := min(values/perKnot, maxSide)
	atX, atY := 0., 0.
	for i := range knots {
		level := (float64(i) + 0.5) / float64(knots)
		across := stat.Quantile(level, stat.LinInterp, from, nil) - atX
		if across < minGap {
			continue
		}
		up := stat.Quantile(level, stat.LinInterp, to, nil) - atY
		atX, atY = atX+across, atY+min(max(up, across/fitSlope), across*fitSlope)
		x, y = append(x, atX), append(y, atY)
	}
	return x, y
}

// join puts the two sides around 0.
func join(below, above []float64) []float64 {
	out := make([]float64, 0, len(below)+1+len(above))
	for _, v := range slices.Backward(below) {
		out = append(out, -v)
	}
	return append(append(out, 0), above...)
}
