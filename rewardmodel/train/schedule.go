package train

import "math"

// schedule is the cosine annealing of the paper: from peak at step 0 to 0 after the last of total steps.
type schedule struct {
	peak  float64
	total int
}

func (s schedule) rate(step int) float64 {
	if step >= s.total {
		return 0
	}
	return s.peak / 2 * (1 + math.Cos(math.Pi*float64(step)/float64(s.total)))
}
