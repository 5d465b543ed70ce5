package rewardmodel

import (
	"math"
	"time"
)

// pace is how fast the model computes: tokens and the time they took, of which
// what happened within the last paceMemory of computing counts most. Long
// batches count for more than short ones, so that a full queue is judged by full
// batches as soon as there are some.
type pace struct {
	tokens  float64
	seconds float64
}

const paceMemory = 10 * time.Second

func (p *pace) observe(tokens int, took time.Duration) {
	keep := math.Exp(-took.Seconds() / paceMemory.Seconds())
	p.tokens = p.tokens*keep + float64(tokens)
	p.seconds = p.seconds*keep + took.Seconds()
}

// takes is the time that tokens need; 0 when nothing was measured yet.
func (p *pace) takes(tokens int) time.Duration {
	if p.tokens == 0 {
		return 0
	}
	return seconds(float64(tokens) * p.seconds / p.tokens)
}

// within is how many tokens are computed in d; very many when nothing was
// measured yet.
func (p *pace) within(d time.Duration) int {
	if p.seconds == 0 {
		return math.MaxInt32
	}
	return int(min(p.tokens*d.Seconds()/p.seconds, math.MaxInt32))
}

// seconds is n seconds, or the longest duration that there is.
func seconds(n float64) time.Duration {
	return time.Duration(min(n*float64(time.Second), math.MaxInt64/2))
}
