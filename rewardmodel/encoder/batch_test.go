package encoder

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"assay/rewardmodel"
)

// shippedModel is the checkpoint that the repository ships.
const shippedModel = "../../models/default"

// TestScoreDoesNotDependOnTheBatch scores sequences alone and in random batches: g_-1 must agree within the limits that
// the documentation promises, 1e-5 in fp32 and 5e-3 in bf16.
func TestScoreDoesNotDependOnTheBatch(t *testing.T) {
	if _, err := os.Stat(shippedModel); err != nil {
		t.Skip("no shipped model: run make model")
	}
	for precision, limit := range map[Precision]float64{FP32: 1e-5, BF16: 5e-3} {
		r := newRuntime(t)
		m := loadModel(t, r, shippedModel, precision)
		all, _ := sentences(60, m.net.cfg.Vocab)
		alone := make([]float32, len(all))
		for i := range all {
			z, err := m.Margins(all[i : i+1])
			if err != nil {
				t.Fatal(err)
			}
			alone[i] = z[0]
		}
		rng := rand.New(rand.NewPCG(8, 9))
		var worst float64
		for range 3 {
			order := rng.Perm(len(all))
			for len(order) > 0 {
				n := min(len(order), 1+rng.IntN(20))
				batch := make([]rewardmodel.Sequence, n)
				for k, i := range order[:n] {
					batch[k] = all[i]
				}
				z, err := m.Margins(batch)
				if err != nil {
					t.Fatal(err)
				}
				for k, i := range order[:n] {
					worst = max(worst, math.Abs(violation(z[k])-violation(alone[i])))
				}
				order = order[n:]
			}
		}
		t.Logf("%s: largest difference %.2g", precision, worst)
		if worst > limit {
			t.Errorf("%s: scores differ by %.2g between batches, more than %g", precision, worst, limit)
		}
	}
}

func violation(margin float32) float64 { return 1 / (1 + math.Exp(-float64(margin))) }
