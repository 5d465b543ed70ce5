package encoder

import (
	"math/rand/v2"
	"strings"
	"testing"

	"assay/rewardmodel/checkpoint"
)

// TestNumericsNameTheLevel computes a model at every level of the processor, as where the operating system denies the faster
// ones: its id names the level that it is computed at, not what the processor has.
func TestNumericsNameTheLevel(t *testing.T) {
	r := wideRuntime(t)
	dir := randomCheckpoint(t, rand.New(rand.NewPCG(5, 6)), 60, 3, 100, checkpoint.GELUTanh, "a", "b")
	for _, p := range panelPrecisions {
		t.Run(string(p), func(t *testing.T) {
			m := loadInPanels(t, r, dir, p, sequences([]int32{1, 2, 3}))
			best, err := m.Numerics()
			if err != nil || !strings.HasPrefix(best, r.Numerics(p)+"/"+string(p)+"/") {
				t.Fatalf("%q (%v), want the beginning %s", best, err, r.Numerics(p))
			}
			seen := map[string]bool{}
			for _, level := range panelLevels(p) {
				m.panels.level = level
				id, err := m.Numerics()
				if err != nil || !strings.HasPrefix(id, numericsPrefix(levelName(level))+"/"+string(p)+"/") {
					t.Errorf("level %d: %q (%v)", level, id, err)
				}
				if seen[id] {
					t.Errorf("two levels have the id %s", id)
				}
				seen[id] = true
			}
			if !seen[best] {
				t.Errorf("no level has the id %s of the model as loaded", best)
			}
		})
	}
}
