package paper

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrRecord is wrapped by the errors of corrupt or invalid records.
var ErrRecord = errors.New("paper: invalid record")

// ParseRecord reads one line of the results file. Unknown fields are ignored. The error wraps ErrRecord and names the
// field.
func ParseRecord(line []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return r, r.validate()
}

// AppendJSON appends the record to dst as one line, without the newline. Equal records give equal bytes.
func (r Record) AppendJSON(dst []byte) ([]byte, error) {
	if err := r.validate(); err != nil {
		return dst, err
	}
	line, err := json.Marshal(r, json.Deterministic(true), jsontext.Multiline(false))
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return append(dst, line...), nil
}

func (r Record) validate() error {
	if err := r.Spec.Validate(); err != nil {
		return fmt.Errorf("%w: spec: %w", ErrRecord, err)
	}
	if r.Key != r.Spec.Key() {
		return fmt.Errorf("%w: key is %q; the key of its spec is %q", ErrRecord, r.Key, r.Spec.Key())
	}
	if _, ok := r.Metrics[avgAcc]; !ok {
		return fmt.Errorf("%w: metrics: %s is missing", ErrRecord, avgAcc)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		if !share(r.Metrics[name]) {
			return fmt.Errorf("%w: metrics: %s is %v; it must be in [0,1]", ErrRecord, name, r.Metrics[name])
		}
	}
	if !share(r.Threshold) {
		return fmt.Errorf("%w: threshold is %v; it must be in [0,1]", ErrRecord, r.Threshold)
	}
	for _, name := range slices.Sorted(maps.Keys(r.AtThreshold)) {
		if at := r.AtThreshold[name]; !share(at.Threshold) || !share(at.AvgAcc) || !share(at.F1Violation) {
			return fmt.Errorf("%w: at_threshold: %s is %+v; all must be in [0,1]", ErrRecord, name, at)
		}
	}
	for _, p := range r.Loss {
		if math.IsNaN(p.Loss) || math.IsInf(p.Loss, 0) {
			return fmt.Errorf("%w: loss is %v at step %d", ErrRecord, p.Loss, p.Step)
		}
	}
	for name, h := range map[string]Histograms{"train_scores": r.Train, "test_scores": r.Test} {
		if !h.IsZero() && (len(h.Violation) != HistogramBins || len(h.Compliant) != HistogramBins) {
			return fmt.Errorf("%w: %s has %d and %d bins; it must have %d", ErrRecord, name, len(h.Violation), len(h.Compliant), HistogramBins)
		}
	}
	return nil
}

// share reports whether v is in [0,1] and not NaN.
func share(v float64) bool { return v >= 0 && v <= 1 }
