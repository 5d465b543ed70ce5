package retrain

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// aspectFleet serves a model with the given aspects.
func aspectFleet(aspects ...string) *fleet {
	f := newFleet()
	f.models["base-1"] = Model{Version: "base-1", State: StateInitial, Aspects: aspects}
	return f
}

// aspectRun returns a training run of a fleet that has all its labels.
func aspectRun(t *testing.T, f *fleet, policy Policy) *trainingRun {
	t.Helper()
	dir := t.TempDir()
	p := &process{fleet: f, t: t, died: func() {}}
	f.status = Status{Phase: PhaseCollecting, ID: "x", Through: f.index.Last(), Base: "base-1"}
	l := NewLoop(Config{Dir: dir}, policy, Parts{p, p, p, p, p, p, p, p, p, nil}, zerolog.Nop())
	return &trainingRun{Loop: l, id: "x", dir: filepath.Join(dir, "x"), lease: &lease{store: p, now: time.Now, ttl: time.Minute, status: f.status}}
}

// The files of a model with several aspects have the labels of each.
func TestCollectKeepsTheLabelsOfAspects(t *testing.T) {
	f := aspectFleet("toxicity", "refusal")
	for i := range 60 {
		f.judge(fmt.Sprint("t", i), "anna", feedback.Labels{Aspects: map[string]bag.Label{"toxicity": labelOf(i%2 == 0), "mistyped": bag.Violation}})
		f.judge(fmt.Sprint("r", i), "anna", feedback.Labels{Aspects: map[string]bag.Label{"refusal": labelOf(i%3 == 0)}})
		f.say(fmt.Sprint("w", i), "anna", i%2 == 0)
		f.judge(fmt.Sprint("m", i), "anna", feedback.Labels{Aspects: map[string]bag.Label{"mistyped": bag.Violation}})
	}
	f.judge("t1", "ben", feedback.Labels{Aspects: map[string]bag.Label{"toxicity": bag.Violation}}) // tied
	run := aspectRun(t, f, testPolicy())
	j, err := run.collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, j.Data.Disputed)
	require.Equal(t, 179, j.Data.Bags+j.Data.HeldOut)
	tox := j.Data.Aspects["toxicity"]
	require.Equal(t, 59+30, tox.Bags+tox.HeldOut, "those of toxicity, and the compliant whole responses")
	require.Equal(t, 30, tox.Violations+tox.HeldOutViolations)

	for _, name := range []string{"bags.jsonl", "holdout.jsonl"} {
		file, err := os.Open(run.path(name))
		require.NoError(t, err)
		defer file.Close()
		n := 0
		for b, err := range bag.Read(file) {
			require.NoError(t, err)
			n++
			switch b.ID[0] {
			case 't':
				require.Equal(t, bag.Label(""), b.Label)
				require.Len(t, b.Labels, 1)
				require.Contains(t, b.Labels, "toxicity")
			case 'r':
				require.Contains(t, b.Labels, "refusal")
			case 'w':
				require.Nil(t, b.Labels)
			default:
				t.Errorf("%s has no label of the model", b.ID)
			}
		}
		require.NotZero(t, n)
	}

	// The next promotion freezes the labels.
	frozen, err := feedback.LoadLabels(j.Holdout, j.HoldoutAspects)
	require.NoError(t, err)
	require.Len(t, frozen, j.Data.HeldOut)
	again, err := run.collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, j, again)
}

// A model whose only aspect has a name learns from labels of that name, and from those of the whole response.
func TestOneNamedAspect(t *testing.T) {
	f := aspectFleet("toxicity")
	for i := range 60 {
		f.judge(fmt.Sprint("t", i), "anna", feedback.Labels{Aspects: map[string]bag.Label{"toxicity": labelOf(i%2 == 0)}})
		f.say(fmt.Sprint("w", i), "anna", i%2 == 0)
		f.judge(fmt.Sprint("m", i), "anna", feedback.Labels{Aspects: map[string]bag.Label{"mistyped": bag.Violation}})
	}
	run := aspectRun(t, f, testPolicy())
	s, decision, err := run.Outlook(t.Context())
	require.NoError(t, err)
	require.Equal(t, 120, s.Stats.Bags+s.Stats.HeldOut)
	require.False(t, s.Stats.Aspects["toxicity"].Unknown)
	require.True(t, s.Stats.Aspects["mistyped"].Unknown)
	require.Contains(t, decision.Wait, "training run x is in progress")
	s.Status = Status{}
	require.Equal(t, TriggerBags, testPolicy().Decide(s).Trigger)
	j, err := run.collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, 120, j.Data.Bags+j.Data.HeldOut)
	require.Nil(t, j.Data.Aspects)

	s = Situation{Now: noon, Aspects: []string{"toxicity"}, Stats: stats(400, 80, 200, 100)} // no label names an aspect
	require.Equal(t, TriggerBags, DefaultPolicy().Decide(s).Trigger)
	s.Stats.New = feedback.NewCounts{Bags: 199, Violations: 90}
	require.Equal(t, "199 of 200 new bags (90 violating, 109 compliant; at least 20 of each)", DefaultPolicy().Decide(s).Wait)
}

// A model that gets an aspect judges it on the frozen hold-out, whose labels it
// completes and does not change.
func TestFrozenHoldoutGetsLabelsOfANewAspect(t *testing.T) {
	f := aspectFleet("toxicity", "refusal")
	f.frozen = map[feedback.Hash]feedback.Labels{}
	for i := range 100 {
		f.judge(fmt.Sprint("t", i), "anna", feedback.Labels{Aspects: map[string]bag.Label{
			"toxicity": labelOf(i%2 == 0), "refusal": labelOf(i%3 == 0),
		}})
	}
	for b := range f.index.Bags(testSplit()) {
		if b.HeldOut {
			f.frozen[b.ID] = feedback.Labels{Aspects: map[string]bag.Label{"toxicity": bag.Compliant}}
		}
	}
	policy := testPolicy()
	policy.MinHeldOut = 4
	run := aspectRun(t, f, policy)
	sel, err := run.choose(t.Context(), f.status, &job{})
	require.NoError(t, err)
	require.Len(t, sel.holdout, len(f.frozen))
	refusals := map[bag.Label]int{}
	for id, labels := range sel.holdout {
		require.Equal(t, bag.Compliant, labels.Aspects["toxicity"], "the frozen label judges")
		require.Equal(t, bag.Label(""), f.frozen[id].Aspects["refusal"])
		refusals[labels.Aspects["refusal"]]++
	}
	require.Equal(t, 4, refusals[bag.Violation])
	require.Equal(t, 4, refusals[bag.Compliant])
}

// The labels that a frozen hold-out lacks bring no others with them: a flood of wrong labels of an aspect that it has
// enough of changes nothing.
func TestFrozenHoldoutGetsOnlyWhatItLacks(t *testing.T) {
	f := aspectFleet("toxicity", "refusal")
	f.frozen = map[feedback.Hash]feedback.Labels{}
	for i := range 100 {
		f.judge(fmt.Sprint("t", i), "anna", feedback.Labels{Aspects: map[string]bag.Label{"toxicity": labelOf(i%2 == 0)}})
	}
	for b := range f.index.Bags(testSplit(), "toxicity", "refusal") {
		if b.HeldOut {
			f.frozen[b.ID] = b.Labels
		}
	}
	for i := range 100 {
		f.judge(fmt.Sprint("wrong", i), "eve", feedback.Labels{Aspects: map[string]bag.Label{
			"toxicity": bag.Violation, "refusal": labelOf(i%3 == 0),
		}})
		f.judge(fmt.Sprint("whole", i), "eve", feedback.Labels{Whole: bag.Compliant})
	}
	policy := testPolicy()
	policy.MinHeldOut = 6
	run := aspectRun(t, f, policy)
	sel, err := run.choose(t.Context(), f.status, &job{})
	require.NoError(t, err)
	toxicity, refusals := map[bag.Label]int{}, map[bag.Label]int{}
	for id, labels := range sel.holdout {
		require.Equal(t, f.frozen[id].For("toxicity", 2), labels.For("toxicity", 2))
		toxicity[labels.For("toxicity", 2)]++
		refusals[labels.For("refusal", 2)]++
	}
	require.Equal(t, len(f.frozen), toxicity[bag.Violation]+toxicity[bag.Compliant])
	require.Equal(t, 6, refusals[bag.Violation])
	require.Equal(t, 6, refusals[bag.Compliant])
}

// One aspect with enough labels is enough.
func TestPolicyOfSeveralAspects(t *testing.T) {
	enough := feedback.AspectStats{Bags: 200, Violations: 100, HeldOut: 40, HeldOutViolations: 20, New: feedback.NewCounts{Bags: 100, Violations: 50}}
	little := feedback.AspectStats{Bags: 200, Violations: 4, HeldOut: 40, HeldOutViolations: 1, New: feedback.NewCounts{Bags: 100, Violations: 4}}
	notHeldOut := enough
	notHeldOut.HeldOutViolations = 3
	stale := enough
	stale.New.Violations = 2
	drifted := Drift{Reference: 1000, Recent: 600, Distance: 0.25, PValue: 1e-12}
	steady := Drift{Reference: 1000, Recent: 600, Distance: 0.05, PValue: 0.5}
	for name, c := range map[string]struct {
		toxicity, refusal feedback.AspectStats
		new               int
		s                 Situation
		trigger           Trigger
		says              string
	}{
		"both":             {enough, enough, 200, Situation{}, TriggerBags, "200 new bags"},
		"one":              {enough, little, 200, Situation{}, TriggerBags, "200 new bags"},
		"none":             {little, little, 200, Situation{}, TriggerNone, "no aspect has enough labels: toxicity: 4 violating and 196 compliant bags to train on; 20 of each are needed; refusal: 4"},
		"one not held out": {notHeldOut, little, 200, Situation{}, TriggerNone, "toxicity: waiting for held-out responses: 3 of 20 violations"},
		"few new bags":     {enough, little, 199, Situation{}, TriggerNone, "199 of 200 new bags (toxicity: 50 violating, 50 compliant; refusal: 4 violating, 96 compliant (in all 4 violating and 196 compliant bags"},
		"new ones of another aspect": {stale, little, 200, Situation{}, TriggerNone,
			"(toxicity: 2 violating, 98 compliant; "},
		"drift of one": {enough, little, 10, Situation{Drift: LargestDrift(map[string]Drift{"toxicity": steady, "refusal": drifted})},
			TriggerDrift, "last 600 scores of the aspect refusal differs"},
		"disagreement in one": {enough, little, 10, Situation{Disagreement: Disagreement{Labels: 100, Against: 3, Aspects: map[string]Disagreement{
			"toxicity": {Labels: 100, Against: 45}}}}, TriggerDisagreement, "45 of 100 new labels of the aspect toxicity contradict"},
		"no disagreement": {enough, little, 10, Situation{Disagreement: Disagreement{Labels: 100, Against: 3, Aspects: map[string]Disagreement{
			"toxicity": {Labels: 100, Against: 4}}}}, TriggerNone, "10 of 200 new bags"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.s
			s.Now, s.Aspects = noon, []string{"toxicity", "refusal"}
			s.Stats = stats(400, 80, c.new, c.new/2)
			s.Stats.Aspects = map[string]feedback.AspectStats{"toxicity": c.toxicity, "refusal": c.refusal}
			d := DefaultPolicy().Decide(s)
			require.Equal(t, c.trigger, d.Trigger, "%+v", d)
			require.Contains(t, d.Reason+d.Wait, c.says)
		})
	}
}

func TestLargestDrift(t *testing.T) {
	require.Equal(t, Drift{PValue: 1}, LargestDrift(nil))
	small, large := Drift{Recent: 5, Distance: 0.1}, Drift{Recent: 7, Distance: 0.4}
	d := LargestDrift(map[string]Drift{"a": small, "b": large})
	require.Equal(t, "b", d.Aspect)
	require.Equal(t, 7, d.Recent)
	require.Len(t, d.Aspects, 2)
}
