package retrain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/feedback"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// stats returns statistics with training bags, half of them violations, and some new ones.
func stats(bags, heldOut, newBags, newViolations int) feedback.Stats {
	st := feedback.Stats{Bags: bags, Violations: bags / 2, HeldOut: heldOut, HeldOutViolations: heldOut / 2}
	st.New.Bags, st.New.Violations = newBags, newViolations
	return st
}

func over(s feedback.Stats, omitted int) feedback.Stats {
	s.OverShare = omitted
	return s
}

func ended(result Result, ago time.Duration, failures int) Status {
	return Status{Phase: PhaseIdle, Last: &Outcome{ID: "t1", Version: "v2", Result: result, Finished: noon.Add(-ago), Failures: failures}}
}

func TestPolicyDecides(t *testing.T) {
	ask := &TrainingRequest{By: "ann", Reason: "new policy"}
	drifted := Drift{Reference: 1000, Recent: 600, Distance: 0.25, PValue: 1e-12}
	wrong := Disagreement{Labels: 100, Against: 45}
	for _, c := range []struct {
		name     string
		change   func(*Policy)
		s        Situation
		trigger  Trigger
		wantText string
		next     time.Time
	}{
		{"nothing", nil, Situation{}, TriggerNone, "0 violating and 0 compliant bags to train on; 20 of each are needed", time.Time{}},
		{"enough bags", nil, Situation{Stats: stats(200, 40, 200, 100)}, TriggerBags, "200 new bags, 100 of them violations", time.Time{}},
		{"too few bags", nil, Situation{Stats: stats(200, 40, 199, 100)}, TriggerNone, "199 of 200 new bags (100 violating, 99 compliant", time.Time{}},
		{"too few new violations", nil, Situation{Stats: stats(400, 40, 300, 19)}, TriggerNone, "300 of 200 new bags (19 violating, 281 compliant; at least 20 of each)", time.Time{}},
		{"too few new compliant bags", nil, Situation{Stats: stats(400, 40, 300, 281)}, TriggerNone, "19 compliant", time.Time{}},
		{"one label alone", nil, Situation{Stats: feedback.Stats{Bags: 500}}, TriggerNone, "0 violating and 500 compliant bags", time.Time{}},
		{"nothing held out", nil, Situation{Stats: stats(400, 39, 300, 100)}, TriggerNone, "waiting for held-out responses: 19 of 20 violations (about 5 more labels of that kind); a share of 0.2", time.Time{}},
		{"too few senders", func(p *Policy) { p.MaxSenderShare = 0.4 }, Situation{Stats: feedback.Stats{OverShare: 900}, Status: Status{Requested: ask}},
			TriggerNone, "0 violating and 0 compliant bags to train on; 20 of each are needed; 900 responses are omitted, because no sender may have more than 0.4 of either label: " +
				"send labels with at least 3 tokens of different names", time.Time{}},
		{"a flood is not new", func(p *Policy) { p.MaxSenderShare = 0.5 }, Situation{Stats: over(stats(400, 40, 100, 50), 900)},
			TriggerNone, "100 of 200 new bags (50 violating, 50 compliant; at least 20 of each); 900 responses are omitted", time.Time{}},
		{"off", func(p *Policy) { p.Auto = false }, Situation{Stats: stats(400, 40, 300, 100), Drift: drifted, Disagreement: wrong},
			TriggerNone, "automatic training is off", time.Time{}},
		{"no number of bags", func(p *Policy) { p.MinBags = 0 }, Situation{Stats: stats(400, 40, 300, 100)}, TriggerNone, "their number does not start a training run", time.Time{}},
		{"running", nil, Situation{Stats: stats(400, 40, 300, 100), Status: Status{Phase: PhaseGating, ID: "t9", Requested: ask}},
			TriggerNone, "training run t9 is in progress (gating)", time.Time{}},

		{"by hand", func(p *Policy) { p.Auto = false }, Situation{Stats: stats(400, 40, 0, 0), Status: Status{Phase: PhaseIdle, Requested: ask}},
			TriggerManual, "requested by ann: new policy", time.Time{}},
		{"by hand in the cool-down", nil, Situation{Stats: stats(400, 40, 300, 100), Status: Status{Requested: ask, Last: ended(ResultFailed, 0, 5).Last}},
			TriggerManual, "requested by ann", time.Time{}},
		{"by hand without a hold-out", nil, Situation{Stats: stats(400, 2, 300, 100), Status: Status{Requested: ask}},
			TriggerNone, "ann requested a training run, but there is not enough data to judge it: waiting for held-out responses: 1 of 20 violations (about 95 more labels of that kind), 1 of 20 compliant (about 95", time.Time{}},
		{"by hand without bags", nil, Situation{Stats: stats(30, 40, 30, 15), Status: Status{Requested: ask}}, TriggerNone, "15 violating and 15 compliant bags to train on", time.Time{}},

		{"cool-down", nil, Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultPromoted, 4*time.Minute, 0)},
			TriggerNone, "300 new bags, 100 of them violations, but the cool-down after training run t1 ends at 2026-01-02T12:06:00Z", noon.Add(6 * time.Minute)},
		{"cool-down and nothing new", nil, Situation{Stats: stats(400, 40, 1, 1), Status: ended(ResultPromoted, 4*time.Minute, 0)},
			TriggerNone, "1 of 200 new bags", time.Time{}},
		{"after the cool-down", nil, Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultPromoted, 10*time.Minute, 0)}, TriggerBags, "", time.Time{}},
		{"after a failure", nil, Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultFailed, 10*time.Minute, 1)},
			TriggerNone, "after training run t1 (which failed) ends", noon.Add(10 * time.Minute)},
		{"after three failures", nil, Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultFailed, 10*time.Minute, 3)},
			TriggerNone, "(failure 3 in a row)", noon.Add(70 * time.Minute)},
		{"after many failures", nil, Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultFailed, 0, 4000)},
			TriggerNone, "(failure 4000 in a row)", noon.Add(24 * time.Hour)},
		{"after a failure without cool-down", func(p *Policy) { p.Cooldown = 0 },
			Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultFailed, 0, 1)}, TriggerNone, "", noon.Add(time.Minute)},

		{"after a cancellation", nil, Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultCanceled, 4*time.Minute, 0)},
			TriggerNone, "after training run t1 (which was canceled) ends", noon.Add(6 * time.Minute)},
		{"after a cancellation without cool-down", func(p *Policy) { p.Cooldown = 0 },
			Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultCanceled, 0, 0)}, TriggerNone, "", noon.Add(time.Minute)},

		{"disagreement", nil, Situation{Stats: stats(400, 40, 60, 30), Disagreement: wrong, Drift: drifted},
			TriggerDisagreement, "45 of 100 new labels contradict the model's decision (45 %, at least 36 %", time.Time{}},
		{"disagreement by chance", nil, Situation{Stats: stats(400, 40, 60, 30), Disagreement: Disagreement{Labels: 60, Against: 22}}, TriggerNone, "60 of 200", time.Time{}},
		{"too few labels to disagree", nil, Situation{Stats: stats(400, 40, 60, 30), Disagreement: Disagreement{Labels: 49, Against: 49}}, TriggerNone, "60 of 200", time.Time{}},
		{"disagreement off", func(p *Policy) { p.Disagreement = 0 }, Situation{Stats: stats(400, 40, 60, 30), Disagreement: wrong}, TriggerNone, "60 of 200", time.Time{}},
		{"disagreement after a rejection", nil, Situation{Stats: stats(400, 40, 19, 10), Disagreement: wrong, Status: ended(ResultRejected, time.Hour, 0)},
			TriggerNone, "wait for 20 after the rejection of v2", time.Time{}},
		{"bags before disagreement", nil, Situation{Stats: stats(400, 40, 300, 100), Disagreement: wrong}, TriggerBags, "", time.Time{}},

		{"drift", nil, Situation{Stats: stats(400, 40, 1, 1), Drift: drifted}, TriggerDrift, "the distribution of the last 600 scores differs from that of the 1000 reference scores (Kolmogorov-Smirnov distance 0.25, p = 1e-12", time.Time{}},
		{"drift without new bags", nil, Situation{Stats: stats(400, 40, 0, 0), Drift: drifted}, TriggerNone, "0 of 200", time.Time{}},
		{"drift of few scores", nil, Situation{Stats: stats(400, 40, 1, 1), Drift: Drift{Reference: 1000, Recent: 499, Distance: 1}}, TriggerNone, "", time.Time{}},
		{"small drift", nil, Situation{Stats: stats(400, 40, 1, 1), Drift: Drift{Reference: 1000, Recent: 1000, Distance: 0.19}}, TriggerNone, "", time.Time{}},
		{"drift by chance", nil, Situation{Stats: stats(400, 40, 1, 1), Drift: Drift{Reference: 1000, Recent: 1000, Distance: 0.21, PValue: 0.01}}, TriggerNone, "", time.Time{}},

		{"schedule", func(p *Policy) { p.Every = time.Hour }, Situation{Stats: stats(400, 40, 1, 1), Status: ended(ResultPromoted, time.Hour, 0)},
			TriggerSchedule, "1h0m0s have passed since the last training run, and 1 bags are new", time.Time{}},
		{"schedule to come", func(p *Policy) { p.Every = time.Hour }, Situation{Stats: stats(400, 40, 1, 1), Status: ended(ResultPromoted, 20*time.Minute, 0)},
			TriggerNone, "1 of 200", noon.Add(40 * time.Minute)},
		{"schedule shorter than the cool-down", func(p *Policy) { p.Every = time.Minute }, Situation{Stats: stats(400, 40, 1, 1), Status: ended(ResultPromoted, 0, 0)},
			TriggerNone, "1 of 200", noon.Add(10 * time.Minute)},
		{"schedule without a new bag", func(p *Policy) { p.Every = time.Hour }, Situation{Stats: stats(400, 40, 0, 0)}, TriggerNone, "0 of 200", time.Time{}},
		{"schedule of a new service", func(p *Policy) { p.Every = time.Hour }, Situation{Stats: stats(400, 40, 1, 1), Since: noon.Add(-time.Minute)},
			TriggerNone, "1 of 200", noon.Add(59 * time.Minute)},

		{"cool-down after a run that ended in the future", nil, Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultPromoted, -24*time.Hour, 0)}, TriggerBags, "", time.Time{}},
		{"schedule after a run that ended in the future", func(p *Policy) { p.Every = time.Hour },
			Situation{Stats: stats(400, 40, 1, 1), Status: ended(ResultPromoted, -24*time.Hour, 0)}, TriggerSchedule, "", time.Time{}},
		{"schedule of a version of the future", func(p *Policy) { p.Every = time.Hour }, Situation{Stats: stats(400, 40, 1, 1), Since: noon.Add(24 * time.Hour)},
			TriggerSchedule, "", time.Time{}},
		{"clocks of replicas differ", nil, Situation{Stats: stats(400, 40, 300, 100), Status: ended(ResultPromoted, -30*time.Second, 0)},
			TriggerNone, "the cool-down after", noon.Add(10*time.Minute + 30*time.Second)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := DefaultPolicy()
			if c.change != nil {
				c.change(&p)
			}
			require.NoError(t, p.Validate())
			c.s.Now = noon
			d := p.Decide(c.s)
			require.Equal(t, c.trigger, d.Trigger, "%+v", d)
			assert.Contains(t, d.Reason+d.Wait, c.wantText)
			assert.Equal(t, c.trigger == TriggerNone, d.Reason == "")
			assert.Equal(t, c.trigger == TriggerNone, d.Wait != "")
			assert.Equal(t, c.next, d.Next)
			if !d.Next.IsZero() { // it is the earliest such time
				c.s.Now = d.Next.Add(-time.Nanosecond)
				assert.Equal(t, TriggerNone, p.Decide(c.s).Trigger)
				c.s.Now = d.Next
				assert.NotEqual(t, TriggerNone, p.Decide(c.s).Trigger)
			}
		})
	}
}

func TestPolicyNamesTheBadSetting(t *testing.T) {
	require.NoError(t, DefaultPolicy().Validate())
	for message, change := range map[string]func(*Policy){
		"MinBags is -1":                             func(p *Policy) { p.MinBags = -1 },
		"MinBags is 39":                             func(p *Policy) { p.MinBags = 39 },
		"MinEach is 0":                              func(p *Policy) { p.MinEach = 0 },
		"Cooldown is -1s":                           func(p *Policy) { p.Cooldown = -time.Second },
		"Drift is 1":                                func(p *Policy) { p.Drift = 1 },
		"DriftMin is 9":                             func(p *Policy) { p.DriftMin = 9 },
		"DriftMin is 1001":                          func(p *Policy) { p.DriftMin = 1001 },
		"Disagreement is 1":                         func(p *Policy) { p.Disagreement = 1 },
		"DisagreementMin is 0":                      func(p *Policy) { p.DisagreementMin = 0 },
		"Every is -1ns":                             func(p *Policy) { p.Every = -1 },
		"HoldoutShare is 0.6":                       func(p *Policy) { p.HoldoutShare = 0.6 },
		"HoldoutShare is 0":                         func(p *Policy) { p.HoldoutShare = 0 },
		"MinHeldOut is 0; use at lea":               func(p *Policy) { p.MinHeldOut = 0 },
		"MaxSenderShare is 0; use a share in (0,1]": func(p *Policy) { p.MaxSenderShare = 0 },
	} {
		p := DefaultPolicy()
		change(&p)
		require.ErrorContains(t, p.Validate(), message)
	}
}
