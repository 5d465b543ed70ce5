package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/queue/internal/js"
)

// Reference returns the reference scores of a version, against which drift is
// measured: nil if none were set.
func (r *Registry) Reference(ctx context.Context, version string) ([]float64, error) {
	e, err := r.state.Get(ctx, keyReference+token(version))
	if err != nil || e.Value == nil {
		return nil, err
	}
	if len(e.Value)%8 != 0 {
		return nil, fmt.Errorf("%s%s of %s: %d bytes are not a multiple of 8", keyReference, version, BucketState, len(e.Value))
	}
	scores := make([]float64, 0, len(e.Value)/8)
	for b := range slices.Chunk(e.Value, 8) {
		scores = append(scores, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return scores, nil
}

// SetReference stores the reference scores of a version, as little-endian float64.
// The first writer wins; later ones get no error.
func (r *Registry) SetReference(ctx context.Context, version string, scores []float64) error {
	value := make([]byte, 0, 8*len(scores))
	for _, score := range scores {
		value = binary.LittleEndian.AppendUint64(value, math.Float64bits(score))
	}
	_, err := r.state.Put(ctx, keyReference+token(version), value, 0)
	if errors.Is(err, js.ErrChanged) {
		return nil
	}
	return err
}
