package rewardmodel

import (
	"math"
	"slices"

	"assay/rewardmodel/calibration"
)

// maxMargin bounds margins before they are summed up: beyond it a violation is
// 0 or 1 to every digit that a reward keeps, and exp would leave float64.
const maxMargin = 80

// maxLogit bounds the reward `logit`.
const maxLogit = 20

// Violation is g_-1 of an instance with the given margin: its sigmoid, the
// softmax probability of the anomalous class, in [0,1].
func Violation(margin float32) float64 { return sigmoid(bound(margin)) }

func bound(margin float32) float64 { return min(max(float64(margin), -maxMargin), maxMargin) }

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

// logit is the inverse of sigmoid: -Inf at 0 and +Inf at 1.
func logit(p float64) float64 { return math.Log(p) - math.Log1p(-p) }

// softplus is log(1 + exp(x)), the -log of 1 - sigmoid(x).
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// bagScore is the violation of a bag. The margin is its logit, computed on its
// own so that it keeps its digits where the violation is next to 0 or 1.
type bagScore struct{ violation, margin float64 }

// aggregate joins the margins of a bag's instances, of which there is at least
// one. Every aggregate of a single instance is that instance's violation.
func aggregate(kind Aggregate, k int, margins []float32) bagScore {
	switch {
	case kind == AggregateMax || len(margins) == 1:
		m := bound(slices.Max(margins))
		return bagScore{sigmoid(m), m}
	case kind == AggregateNoisyOr:
		normal := 0.0 // log of the product of 1 - v
		for _, m := range margins {
			normal -= softplus(bound(m))
		}
		violation := -math.Expm1(normal)
		return bagScore{violation, math.Log(violation) - normal}
	case kind == AggregateTopK:
		margins = slices.Sorted(slices.Values(margins))
		margins = margins[max(0, len(margins)-k):]
	}
	var violation, normal float64
	for _, m := range margins {
		violation += sigmoid(bound(m))
		normal += sigmoid(-bound(m))
	}
	return bagScore{violation / float64(len(margins)), math.Log(violation) - math.Log(normal)}
}

// scale is what turns the score of a bag into a reward: the threshold of its
// aggregate, and the map to the rewards of an earlier model.
type scale struct {
	threshold   float64
	calibration calibration.Map
}

// emptyScore is the violation whose compliance is the given one.
func (c scale) emptyScore(compliance float64) bagScore {
	switch compliance {
	case 0:
		return bagScore{1, maxMargin}
	case 1:
		return bagScore{0, -maxMargin}
	case 0.5:
		return bagScore{c.threshold, logit(c.threshold)}
	}
	margin := logit(c.threshold) - c.calibration.Inverse().At(logit(compliance))
	return bagScore{sigmoid(margin), margin}
}

// complianceLogit is the log-odds of compliance: the distance from the margin
// to that of the threshold, calibrated. It agrees in sign with the comparison
// of violation and threshold, whatever the rounding, and is 0 exactly where
// they are equal.
func (c scale) complianceLogit(s bagScore) float64 {
	const least = 1e-15 // the sigmoid of -least is below one half
	switch x := c.calibration.At(logit(c.threshold) - s.margin); {
	case s.violation == c.threshold:
		return 0
	case s.violation < c.threshold:
		return max(x, 0)
	default:
		return min(x, -least)
	}
}

// reward puts a bag's score on the scale that was asked for.
func (c scale) reward(kind Reward, s bagScore) float64 {
	switch kind {
	case RewardRaw:
		return 1 - s.violation
	case RewardLogit:
		return min(max(c.complianceLogit(s), -maxLogit), maxLogit)
	default:
		return sigmoid(c.complianceLogit(s))
	}
}

// emptyReward maps the configured compliance of an empty response. It is a
// reward already, so that no calibration moves it.
func (c scale) emptyReward(kind Reward, compliance float64) float64 {
	switch kind {
	case RewardRaw:
		return 1 - c.emptyScore(compliance).violation
	case RewardLogit:
		return min(max(logit(compliance), -maxLogit), maxLogit)
	default:
		return compliance
	}
}
