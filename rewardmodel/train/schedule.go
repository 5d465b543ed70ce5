package train

import "math"

// schedule is the cosine annealing of the paper: from peak at step 0 to floor after the last of total steps.
type schedule struct {
	peak, floor float64
	total       int
}

func (s schedule) rate(step int) float64 {
	if step >= s.total {
		return s.floor
	}
	return s.floor + (s.peak-s.floor)/2*(1+math.Cos(math.Pi*float64(step)/float64(s.total)))
}
