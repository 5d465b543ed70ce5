package rewardmodel

import (
	"fmt"
	"maps"
	"slices"

	"assay/rewardmodel/calibration"
)

// Calibration keeps the rewards of a model comparable with those of the one
// before: for each aggregate, a map of the compliance log-odds logit(T) - m,
// which takes 0 to 0. `compliance` and `logit` pass through it; `raw`, the
// violation and the decision do not change. An aggregate that is absent keeps
// its own scale. Package gate fits it.
type Calibration map[Aggregate]calibration.Map

// Validate reports an unknown aggregate or a map that is none. The error names
// the aggregate.
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
