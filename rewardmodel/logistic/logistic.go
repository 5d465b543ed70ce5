// Package logistic provides numerically stable logistic functions.
package logistic

import "math"

// Sigmoid is 1/(1+exp(-x)), in [0,1].
func Sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

// Logit is the inverse of Sigmoid: the log-odds of p in [0,1], -Inf at 0 and +Inf
// at 1.
func Logit(p float64) float64 { return math.Log(p) - math.Log1p(-p) }

// Softplus is log(1+exp(x)), which is -log(1-Sigmoid(x)).
func Softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
