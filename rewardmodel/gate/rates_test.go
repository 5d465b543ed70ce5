package gate

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// simulations is the number of runs of each rate. GATE_RUNS sets it; the
// recorded tables used 1000.
func simulations(t *testing.T, usual int) int {
	if testing.Short() {
		t.Skip("a simulation; not with -short")
	}
	if given, err := strconv.Atoi(os.Getenv("GATE_RUNS")); err == nil {
		return given
	}
	return usual
}

// size is a number of bags of each label.
type size struct{ violations, compliant int }

// belowMinimum reports whether the default gate rejects so few bags.
func (s size) belowMinimum() bool { return min(s.violations, s.compliant) < MinBags }

// sizes returns the sizes of the recorded tables.
func sizes() []size {
	return []size{{5, 5}, {5, 45}, {10, 40}, {20, 20}, {20, 80}, {50, 50}, {20, 200}, {200, 200}}
}

// TestErrorRates computes the table of the package comment: how often a candidate
// is promoted, by its true difference from the current model.
func TestErrorRates(t *testing.T) {
	runs := simulations(t, 60)
	cfg := DefaultConfig()
	cfg.AllowShift, cfg.Resamples = true, 200
	for _, size := range sizes() {
		rate := func(cfg Config, candidate float64) float64 {
			rng := rand.New(rand.NewPCG(4, uint64(size.violations+size.compliant)))
			promoted := 0.
			for run := range runs {
				cfg.Seed = uint64(run)
				report, err := Decide(cfg, Input{Holdout: twoModels(rng, size.violations, size.compliant, 0.8, candidate)})
				if err != nil {
					t.Fatal(err)
				}
				if report.Promote {
					promoted++
				}
			}
			return promoted / float64(runs)
		}
		if size.belowMinimum() && rate(cfg, 0.95) > 0 {
			t.Errorf("%d+%d bags promote something", size.violations, size.compliant)
		}
		lowered := cfg
		lowered.MinBags = min(cfg.MinBags, size.violations)
		much, worse, margin := rate(lowered, 0.7), rate(lowered, 0.75), rate(lowered, 0.8-cfg.Margin)
		equal, better := rate(lowered, 0.8), rate(lowered, 0.85)
		t.Logf("%3d+%3d bags: -0.10 %.3f, -0.05 %.3f, -0.02 %.3f, equal %.3f, +0.05 %.3f",
			size.violations, size.compliant, much, worse, margin, equal, better)
		if !size.belowMinimum() && (much > 0.08 || worse > 0.15 || margin > 0.25 || better < equal || better < 0.4) {
			t.Errorf("%d+%d bags: the error rate is above the documented one", size.violations, size.compliant)
		}
	}
}

// TestChanceRates computes the table of how often the limit of the shift is lifted
// because the current model ranks hardly better than chance. For a model that ranks
// well, few bags never lift it.
func TestChanceRates(t *testing.T) {
	runs := simulations(t, 100)
	cfg := DefaultConfig()
	cfg.Resamples = 200
	for _, size := range sizes() {
		rate := func(auroc float64) float64 {
			rng := rand.New(rand.NewPCG(5, uint64(size.violations+size.compliant)))
			lifted := 0.
			for run := range runs {
				cfg.Seed = uint64(run)
				set := twoModels(rng, size.violations, size.compliant, auroc, auroc)
				if chance(cfg, set, set.Current[topmost]) {
					lifted++
				}
			}
			return lifted / float64(runs)
		}
		none, weak, fair, good := rate(0.5), rate(0.6), rate(0.7), rate(0.8)
		t.Logf("%3d+%3d bags: AUROC 0.50 %.3f, 0.60 %.3f, 0.70 %.3f, 0.80 %.3f", size.violations, size.compliant, none, weak, fair, good)
		if good > 0.02 || !size.belowMinimum() && (weak > 0.25 || fair > 0.05) {
			t.Errorf("%d+%d bags: the limit is lifted too often", size.violations, size.compliant)
		}
	}
}

// TestAnchorStopsTheRatchet simulates repeated training runs, each with a candidate
// whose true AUROC is worse than the current model's by the margin, and evaluates it on a
// new hold-out. Compared with only the current model, one in ten passes, and the
// losses accumulate. The anchor prevents that.
func TestAnchorStopsTheRatchet(t *testing.T) {
	runs := simulations(t, 4)
	if os.Getenv("GATE_RUNS") != "" {
		runs = max(1, runs/50) // of 200 training runs each
	}
	const jobs, best = 200, 0.85
	cfg := DefaultConfig()
	cfg.AllowShift, cfg.Resamples = true, 200
	violation := labels(50, 50)
	end := func(anchored bool) (mean float64, promotions int) {
		for run := range runs {
			rng := rand.New(rand.NewPCG(6, uint64(run)))
			current := best
			for i := range jobs {
				cfg.Seed = uint64(i)
				margins := scores(rng, violation, best, current, current-cfg.Margin)
				in := Input{Holdout: Bags{Violation: violation, Current: Margins{topmost: margins[1]}, Candidate: Margins{topmost: margins[2]}}}
				if anchored {
					in.HoldoutAnchor = &Reference{Margins: Margins{topmost: margins[0]}}
				}
				report, err := Decide(cfg, in)
				if err != nil {
					t.Fatal(err)
				}
				if report.Promote {
					promotions++
					current -= cfg.Margin
				}
				if current < 0.55 {
					break
				}
			}
			mean += current / float64(runs)
		}
		return mean, promotions / runs
	}
	without, many := end(false)
	with, few := end(true)
	t.Logf("after up to %d training runs, from %.2f: %.3f without an anchor (%d promotions), %.3f with one (%d)", jobs, best, without, many, with, few)
	if without > best-0.15 {
		t.Errorf("without an anchor %.3f is left of %.2f: the simulation has no ratchet", without, best)
	}
	if with < best-0.09 {
		t.Errorf("with an anchor %.3f is left of %.2f", with, best)
	}
}
