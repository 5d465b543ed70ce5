package rewardmodel

import (
	"fmt"
	"maps"
	"slices"

	"assay/rewardmodel/calibration"
	"assay/rewardmodel/logistic"
)

// maxLogit bounds the reward `logit`.
const maxLogit = 20

// Calibration keeps the rewards of a model comparable with those of the preceding
// one: for each aggregate, a function of the compliance log-odds logit(T) - m that
// maps 0 to 0. It applies to `compliance` and `logit`; `raw`, the violation and the
// decision do not change. An aggregate without one is not calibrated. Package gate
// fits it.
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
		return bagScore{c.threshold, logistic.Logit(c.threshold)}
	}
	margin := logistic.Logit(c.threshold) - c.calibration.Inverse().At(logistic.Logit(compliance))
	return bagScore{logistic.Sigmoid(margin), margin}
}

// complianceLogit is the log-odds of compliance: the distance from the margin
// to that of the threshold, calibrated. It agrees in sign with the comparison
// of violation and threshold, whatever the rounding, and is 0 exactly where
// they are equal.
func (c scale) complianceLogit(s bagScore) float64 {
	const smallest = 1e-15 // the sigmoid of -smallest is below one half
	switch x := c.calibration.At(logistic.Logit(c.threshold) - s.margin); {
	case s.violation == c.threshold:
		return 0
	case s.violation < c.threshold:
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
