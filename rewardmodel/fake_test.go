package rewardmodel

import (
	"context"
	"hash/fnv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is a tokenizer for tests with one token per word: its hash.
type words struct{}

func (words) IDs(text string) []int32 {
	var ids []int32
	for word := range strings.FieldsSeq(text) {
		h := fnv.New32a()
		h.Write([]byte(word))
		ids = append(ids, int32(h.Sum32()>>1))
	}
	return ids
}

func (w words) IDsContext(ctx context.Context, text string) ([]int32, error) {
	return w.IDs(text), ctx.Err()
}

func (words) Frame(ids []int32) []int32 { return append(append([]int32{0}, ids...), 2) }
func (words) Special() int              { return 2 }

// hashMargin is a margin in [-4,4] that depends only on the ids.
func hashMargin(ids []int32) float32 {
	h := fnv.New32a()
	for _, id := range ids {
		h.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)})
	}
	return float32(h.Sum32()%8001)/1000 - 4
}

// modelFunc is a model for tests.
type modelFunc func(batch []Sequence) ([]float32, error)

func (f modelFunc) Margins(batch []Sequence) ([]float32, error) { return f(batch) }

func hashMargins(batch []Sequence) ([]float32, error) {
	margins := make([]float32, len(batch))
	for i, q := range batch {
		margins[i] = hashMargin(q.IDs)
	}
	return margins, nil
}

// oneAspect is the aspects of a model with one rule.
func oneAspect(thresholds map[Aggregate]float64, c Calibration) []Aspect {
	return []Aspect{{Name: DefaultAspect, Weight: 1, Thresholds: thresholds, Calibration: c}}
}
