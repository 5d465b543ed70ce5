package rewardmodel

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/rewardmodel/calibration"
	"assay/rewardmodel/logistic"
)

// maxLogit bounds the reward `logit`.
const maxLogit = 20

// Calibration keeps the rewards of a model comparable with those of the preceding
// one, or spreads those beyond a strict threshold: for each aggregate, a function of
// the compliance log-odds logit(T) - m that maps 0 to 0. It applies to `compliance`
// and `logit`; `raw`, the violation and the decision do not change. An aggregate
// without one is not calibrated. Packages gate and train fit it.
type Calibration map[Aggregate]calibration.Map

// Validate reports an unknown aggregate or an invalid map. The error names the
// aggregate.
func (c Calibration) Validate() error {
	for _, aggregate := range slices.Sorted(maps.Keys(c)) {
		if !slices.Contains(Aggregates(), aggregate) {
			return fmt.Errorf("%s: unknown aggregate; use one of %s", aggregate, join(Aggregates()))
		}
		if err := c[aggregate].Validate(); err != nil {
			return fmt.Errorf("%s: %w", aggregate, err)
		}
	}
	return nil
}

func clampLogit(logit float64) float64 { return min(max(logit, -maxLogit), maxLogit) }

// scale is what turns the score of a bag into a reward: the threshold of its
// aggregate, how it grows with the length of the bag, and the map to the rewards of an
// earlier model.
type scale struct {
	threshold   float64 // of a bag with one instance
	lengthSlope float64 // 0 for all aggregates but max
	calibration calibration.Map
}

// lengthShift is what a bag with the given number of scored instances adds to the
// log-odds of the threshold.
func lengthShift(slope float64, instances int) float64 {
	if slope == 0 || instances < 2 {
		return 0
	}
	return slope * math.Log(float64(instances))
}

// shifted adds to the log-odds of a threshold; without a shift it is the same to the
// last bit.
func shifted(threshold, shift float64) float64 {
	if shift == 0 {
		return threshold
	}
	return logistic.Sigmoid(logistic.Logit(threshold) + shift)
}

// thresholdOf is the threshold of a bag of the length of this one.
func (c scale) thresholdOf(s bagScore) float64 {
	return shifted(c.threshold, lengthShift(c.lengthSlope, s.instances))
}

// emptyScore is the violation whose compliance is the given one.
func (c scale) emptyScore(compliance float64) bagScore {
	switch compliance {
	case 0:
		return bagScore{violation: 1, margin: maxMargin}
	case 1:
		return bagScore{violation: 0, margin: -maxMargin}
	case 0.5:
		return bagScore{violation: c.threshold, margin: logistic.Logit(c.threshold)}
	}
	margin := logistic.Logit(c.threshold) - c.calibration.Inverse().At(logistic.Logit(compliance))
	return bagScore{violation: logistic.Sigmoid(margin), margin: margin}
}

// complianceLogit is the log-odds of compliance: the distance from the margin
// to that of the threshold of a bag of this length, calibrated. It agrees in sign
// with the comparison of violation and threshold, whatever the rounding, and is 0
// exactly where they are equal.
func (c scale) complianceLogit(s bagScore) float64 {
	const smallest = 1e-15 // the sigmoid of -smallest is below one half
	shift := lengthShift(c.lengthSlope, s.instances)
	threshold := shifted(c.threshold, shift)
	switch x := c.calibration.At(logistic.Logit(c.threshold) + shift - s.margin); {
	case s.violation == threshold:
		return 0
	case s.violation < threshold:
		return max(x, 0)
	default:
		return min(x, -smallest)
	}
}

// reward converts a bag's score to the requested scale.
func (c scale) reward(kind Reward, s bagScore) float64 {
	switch kind {
	case RewardRaw:
		return 1 - s.violation
	case RewardLogit:
		return clampLogit(c.complianceLogit(s))
	default:
		return logistic.Sigmoid(c.complianceLogit(s))
	}
}

// emptyReward converts the configured compliance of an empty response. It is
// already a reward, so it is not calibrated.
func (c scale) emptyReward(kind Reward, compliance float64) float64 {
	switch kind {
	case RewardRaw:
		return 1 - c.emptyScore(compliance).violation
	case RewardLogit:
		return clampLogit(logistic.Logit(compliance))
	default:
		return compliance
	}
}
