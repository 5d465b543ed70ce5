package gate

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// TestErrorRates makes the table of the package comment. GATE_RUNS sets the
// runs of each figure; the table took 1000.
func TestErrorRates(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation; not with -short")
	}
	runs := 60
	if given, err := strconv.Atoi(os.Getenv("GATE_RUNS")); err == nil {
		runs = given
	}
	cfg := DefaultConfig()
	cfg.AllowShift, cfg.Resamples = true, 200
	for _, bags := range []int{40, 100, 400} {
		rate := func(candidate float64) float64 {
			rng := rand.New(rand.NewPCG(4, uint64(bags)))
			promoted := 0.
			for run := range runs {
				cfg.Seed = uint64(run)
				report, err := Decide(cfg, Input{Holdout: twoModels(rng, bags, 0.8, candidate)})
				if err != nil {
					t.Fatal(err)
				}
				if report.Promote {
					promoted++
				}
			}
			return promoted / float64(runs)
		}
		much, worse, margin, equal, better := rate(0.7), rate(0.75), rate(0.8-cfg.Margin), rate(0.8), rate(0.85)
		t.Logf("%d bags: -0.10 %.3f, -0.05 %.3f, -0.02 %.3f, equal %.3f, +0.05 %.3f", bags, much, worse, margin, equal, better)
		if worse > 0.15 || margin > 0.25 || better < equal || better < 0.4 {
			t.Errorf("%d bags: the gate errs more often than it says", bags)
		}
	}
}
