package checkpoint

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
)

// The labels of an aspect.
const (
	violationLabel = "violation"
	compliantLabel = "compliant"
)

// Aspect is a rule that a checkpoint scores. Each aspect has its own pair of logits
// on a shared encoder.
type Aspect struct {
	Name string `json:"name"`
	// Weight is the aspect's share in a weighted combination; default 1.
	Weight float64 `json:"weight"`
	// Threshold, Thresholds, LengthSlope and Calibration are those of Manifest, for this aspect.
	Threshold   float64                    `json:"threshold"`
	Thresholds  map[string]float64         `json:"thresholds,omitempty"`
	LengthSlope float64                    `json:"length_slope,omitzero"`
	Calibration map[string]calibration.Map `json:"calibration,omitempty"`
	// Unknown keeps the fields that this version does not define.
	Unknown jsontext.Value `json:",embed"`
}

// UnmarshalJSON sets the defaults of absent fields.
func (a *Aspect) UnmarshalJSON(data []byte) error {
	type plain Aspect
	p := plain{Weight: 1, Threshold: DefaultThreshold}
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*a = Aspect(p)
	return nil
}

// AspectList returns the aspects of the checkpoint: those of the manifest, or a
// single one named rewardmodel.DefaultAspect with the manifest's own thresholds and calibration.
func (m *Manifest) AspectList() []Aspect {
	if len(m.Aspects) > 0 {
		return m.Aspects
	}
	return []Aspect{m.own()}
}

// own is the manifest's own thresholds and calibration as those of an unnamed aspect.
func (m *Manifest) own() Aspect {
	return Aspect{
		Name: rewardmodel.DefaultAspect, Weight: 1,
		Threshold: m.Threshold, Thresholds: m.Thresholds, LengthSlope: m.LengthSlope, Calibration: m.Calibration,
	}
}

// CombinationOrDefault returns the combination of the aspects' rewards:
// rewardmodel.CombineMin when the manifest does not name one.
func (m *Manifest) CombinationOrDefault() rewardmodel.Combination {
	return cmp.Or(m.Combination, rewardmodel.CombineMin)
}

// mirrorFirst copies the thresholds and the calibration of the first aspect to the
// manifest's own fields, which is all that an older reader knows.
func (m *Manifest) mirrorFirst() {
	if len(m.Aspects) > 0 {
		first := m.Aspects[0]
		m.Threshold, m.Thresholds, m.LengthSlope, m.Calibration = first.Threshold, first.Thresholds, first.LengthSlope, first.Calibration
	}
}

// checkAspects validates the aspects and their combination; cfg has the labels.
func (m *Manifest) checkAspects(cfg Config) error {
	if m.Combination != "" && !slices.Contains(rewardmodel.Combinations(), m.Combination) {
		return fmt.Errorf("combination is %.80q; use %s, %s or %s", m.Combination, rewardmodel.CombineSum, rewardmodel.CombineMin, rewardmodel.CombineLexicographic)
	}
	if len(m.Aspects) == 0 {
		return nil
	}
	if len(m.Aspects) > rewardmodel.MaxAspects {
		return fmt.Errorf("aspects has %d elements; the maximum is %d", len(m.Aspects), rewardmodel.MaxAspects)
	}
	names, positive := map[string]bool{}, false
	for i, a := range m.Aspects {
		if err := rewardmodel.CheckAspect(a.Name); err != nil {
			return fmt.Errorf("aspects[%d].name: %w", i, err)
		}
		if names[a.Name] {
			return fmt.Errorf("aspects[%d].name is %q, as of an earlier aspect", i, a.Name)
		}
		names[a.Name] = true
		if !(a.Weight >= 0) || math.IsInf(a.Weight, 1) {
			return fmt.Errorf("aspects[%d].weight is %v; it must be finite and at least 0", i, a.Weight)
		}
		positive = positive || a.Weight > 0
		if err := checkScale(fmt.Sprintf("aspects[%d].", i), a); err != nil {
			return err
		}
	}
	if !positive {
		return fmt.Errorf("aspects: every weight is 0; at least one must be positive")
	}
	if n := 2 * len(m.Aspects); cfg.NumLabels != n && (len(m.Aspects) > 1 || cfg.NumLabels != 1) {
		return fmt.Errorf("aspects has %d elements, which take %d labels, but config.json has %d", len(m.Aspects), n, cfg.NumLabels)
	}
	if len(m.Aspects) == 1 {
		return nil
	}
	_, err := cfg.labelRows(m.Aspects)
	return err
}

// checkScale validates the thresholds and calibrations of an aspect under a prefix of their names.
func checkScale(prefix string, a Aspect) error {
	unit := func(x float64) bool { return x >= 0 && x <= 1 } // false for NaN
	if !unit(a.Threshold) {
		return fmt.Errorf("%sthreshold is %v; it must be in [0,1]", prefix, a.Threshold)
	}
	for _, name := range sortedKeys(a.Thresholds) {
		if !unit(a.Thresholds[name]) {
			return fmt.Errorf("%sthresholds.%.80s is %v; it must be in [0,1]", prefix, name, a.Thresholds[name])
		}
	}
	if !(a.LengthSlope >= 0 && a.LengthSlope <= rewardmodel.MaxLengthSlope) {
		return fmt.Errorf("%slength_slope is %v; it must be in [0,%d]", prefix, a.LengthSlope, rewardmodel.MaxLengthSlope)
	}
	for _, name := range sortedKeys(a.Calibration) {
		if err := a.Calibration[name].Validate(); err != nil {
			return fmt.Errorf("%scalibration.%.80s: %w", prefix, name, err)
		}
	}
	return nil
}

// LabelRows are the indices of an aspect's labels in the logits.
type LabelRows struct{ Violation, Compliant int }

// AspectLabels are the labels of a model of the given aspects, in the order of its
// logits: "violation" and "compliant", preceded by "NAME:" when there are several
// aspects.
func AspectLabels(names []string) []string {
	if len(names) == 1 {
		return []string{violationLabel, compliantLabel}
	}
	var labels []string
	for _, name := range names {
		labels = append(labels, name+":"+violationLabel, name+":"+compliantLabel)
	}
	return labels
}

// labelRows finds the labels of several aspects by name.
func (cfg Config) labelRows(aspects []Aspect) ([]LabelRows, error) {
	rows := make([]LabelRows, len(aspects))
	for i, a := range aspects {
		for _, label := range []struct {
			name string
			row  *int
		}{{a.Name + ":" + violationLabel, &rows[i].Violation}, {a.Name + ":" + compliantLabel, &rows[i].Compliant}} {
			if *label.row = cfg.index(label.name); *label.row < 0 {
				return nil, fmt.Errorf("id2label in config.json has no label %q", label.name)
			}
		}
	}
	return rows, nil
}

// labeledAspects are the aspects that the labels name, in the order of their first
// label; nil unless each label is one of a pair of several aspects.
func (cfg Config) labeledAspects() []Aspect {
	if len(cfg.Labels) < 4 || len(cfg.Labels)%2 != 0 {
		return nil
	}
	var aspects []Aspect
	seen := map[string]bool{}
	for _, label := range cfg.Labels {
		label = strings.ToLower(strings.TrimSpace(label))
		name, kind, _ := strings.Cut(label, ":")
		if kind != violationLabel && kind != compliantLabel || seen[label] || rewardmodel.CheckAspect(name) != nil {
			return nil
		}
		seen[label] = true
		if !slices.ContainsFunc(aspects, func(a Aspect) bool { return a.Name == name }) {
			aspects = append(aspects, Aspect{Name: name, Weight: 1, Threshold: DefaultThreshold})
		}
	}
	if 2*len(aspects) != len(cfg.Labels) || len(aspects) > rewardmodel.MaxAspects {
		return nil
	}
	return aspects
}

// nameAspects takes the aspects of a manifest that has none from the labels. The
// manifest's own thresholds and calibration are those of the first one.
func (m *Manifest) nameAspects(cfg Config) {
	if len(m.Aspects) > 0 {
		return
	}
	if m.Aspects = cfg.labeledAspects(); len(m.Aspects) > 0 {
		first := &m.Aspects[0]
		first.Threshold, first.Thresholds, first.LengthSlope, first.Calibration = m.Threshold, maps.Clone(m.Thresholds), m.LengthSlope, maps.Clone(m.Calibration)
	}
}
