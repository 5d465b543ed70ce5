package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"assay/rewardmodel/feedback"
)

// objectHoldout is the object of ASSAY_MODELS with the labels of the hold-out set,
// by which the gate judges candidates.
const objectHoldout = "holdout"

// frozen is the JSON of the object.
type frozen struct {
	Version string          `json:"version"`
	Labels  map[string]bool `json:"labels"` // by the hash of the id; true: violation
	// Aspects has the labels of those that name aspects, of which Labels has the verdict.
	Aspects map[string]feedback.Labels `json:"aspects,omitzero"`
}

// Freeze stores the labels of the hold-out set as they are at the promotion of a
// version. It replaces the labels of the last promotion.
func (r *Registry) Freeze(ctx context.Context, labels map[feedback.Hash]feedback.Labels, version string) error {
	f := frozen{Version: version}
	f.Labels, f.Aspects = feedback.StoreLabels(labels)
	data, err := json.Marshal(f, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("labels of the hold-out set: %w", err)
	}
	return r.objects.put(ctx, objectHoldout, bytes.NewReader(data), nil)
}

// Frozen returns the labels of the hold-out set at the last promotion, and the version
// that was promoted. The map is nil if there was none.
func (r *Registry) Frozen(ctx context.Context) (labels map[feedback.Hash]feedback.Labels, version string, err error) {
	var data bytes.Buffer
	err = r.objects.get(ctx, objectHoldout, func() (io.Writer, error) { data.Reset(); return &data, nil })
	switch {
	case errors.Is(err, errNoObject):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	var f frozen
	if err := json.Unmarshal(data.Bytes(), &f); err != nil {
		return nil, "", fmt.Errorf("object %s of %s: %w", objectHoldout, BucketModels, err)
	}
	if labels, err = feedback.LoadLabels(f.Labels, f.Aspects); err != nil {
		return nil, "", fmt.Errorf("object %s of %s: %w", objectHoldout, BucketModels, err)
	}
	return labels, f.Version, nil
}
