// Package calibration keeps the rewards of a new model comparable with those of
// the previous one: a monotone map from the compliance log-odds of the new model to
// those of the previous one, which does not move the decision threshold. A map of
// the same kind spreads the rewards beyond a threshold that few responses exceed.
//
// The compliance log-odds of a response are logit(T) - m, with m the logit of
// its violation and T the threshold: positive when it is compliant, 0 at T.
package calibration

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrMap is wrapped by the error of Map.Validate.
var ErrMap = errors.New("bad calibration")

// Bounds of a map, wide enough for any two reasonable models, and narrow enough
// that mapped values stay finite and in order.
const (
	maxKnots = 64
	maxLogit = 1000 // of a knot, in log-odds
	maxSlope = 1000 // between two knots; the minimum is its inverse
)

// Map is a strictly increasing piecewise-linear map of log-odds to log-odds.
// It maps From[i] to To[i], is linear between the knots and has slope 1 beyond the
// first and the last. It maps 0 to 0. The zero Map, without knots, is the identity.
type Map struct {
	From []float64 `json:"from"`
	To   []float64 `json:"to"`
}

// Validate returns an error for the first violation of these rules. It names the
// knot and wraps ErrMap.
func (m Map) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrMap}, args...)...)
	}
	if len(m.From) != len(m.To) {
		return bad("%d knots in from and %d in to; give as many", len(m.From), len(m.To))
	}
	if len(m.From) > maxKnots {
		return bad("%d knots; give at most %d", len(m.From), maxKnots)
	}
	fixed := len(m.From) == 0
	for i := range m.From {
		from, to := m.From[i], m.To[i]
		if !(math.Abs(from) <= maxLogit && math.Abs(to) <= maxLogit) {
			return bad("knot %d is (%v, %v); give log-odds between -%d and %d", i, from, to, maxLogit, maxLogit)
		}
		fixed = fixed || from == 0 && to == 0
		if i == 0 {
			continue
		}
		across, up := from-m.From[i-1], to-m.To[i-1]
		if !(across > 0 && up > 0) {
			return bad("knot %d is (%v, %v), after (%v, %v); both must rise", i, from, to, m.From[i-1], m.To[i-1])
		}
		if slope := up / across; !(slope <= maxSlope && slope >= 1./maxSlope) {
			return bad("the slope up to knot %d is %v; it must be between 1/%d and %d", i, slope, maxSlope, maxSlope)
		}
	}
	if !fixed {
		return bad("no knot maps 0 to 0, which keeps the threshold where it is")
	}
	return nil
}

// Identity reports whether m is the identity.
func (m Map) Identity() bool { return slices.Equal(m.From, m.To) }

// At maps log-odds, which may be infinite. The result has the sign of z.
func (m Map) At(z float64) float64 {
	last := len(m.From) - 1
	switch {
	case last < 0:
		return z
	case z <= m.From[0]:
		return m.To[0] + (z - m.From[0])
	case z >= m.From[last]:
		return m.To[last] + (z - m.From[last])
	}
	i, found := slices.BinarySearch(m.From, z)
	if found {
		return m.To[i]
	}
	// Interpolate from the knot nearer to 0, so that rounding never moves a value
	// to or past 0, and clamp between the knots, so that it never reorders values.
	slope := (m.To[i] - m.To[i-1]) / (m.From[i] - m.From[i-1])
	if m.From[i] <= 0 {
		return max(m.To[i-1], m.To[i]-(m.From[i]-z)*slope)
	}
	return min(m.To[i], m.To[i-1]+(z-m.From[i-1])*slope)
}

// Inverse returns the inverse map.
func (m Map) Inverse() Map { return Map{From: m.To, To: m.From} }
