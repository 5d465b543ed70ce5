package retrain

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// flood adds n wrong labels of another token than that of label.
func (f *fleet) flood(n int) {
	for i := range n {
		f.send("flood", fmt.Sprint("f", i), "", feedback.Labels{Whole: labelOf(i%3 > 0)})
	}
}

// collected returns the bags of a training run under a limit on the share of a sender.
func (f *fleet) collected(t *testing.T, share float64, maxBags int) (trained map[string]bag.Label, j *job) {
	t.Helper()
	policy := testPolicy()
	policy.MaxSenderShare = share
	tr, j := f.collect(t, policy, maxBags)
	return readBags(t, tr.path("bags.jsonl")), j
}

// collect does the first step of a training run.
func (f *fleet) collect(t *testing.T, policy Policy, maxBags int) (*trainingRun, *job) {
	t.Helper()
	dir := t.TempDir()
	p := &process{fleet: f, t: t, died: func() {}}
	f.status = Status{Phase: PhaseCollecting, ID: "x", Through: f.index.Last(), Base: "base-1"}
	l := NewLoop(Config{Dir: dir, MaxBags: maxBags}, policy, Parts{p, p, p, p, p, p, p, p, p, nil}, zerolog.Nop())
	tr := &trainingRun{Loop: l, id: "x", dir: filepath.Join(dir, "x"), lease: &lease{store: p, now: time.Now, ttl: time.Minute, status: f.status}}
	j, err := tr.collect(t.Context())
	require.NoError(t, err)
	return tr, j
}

// bySender counts labels by whether they are of the flood.
func bySender(labels map[string]bag.Label) (honest, flood map[bag.Label]int) {
	honest, flood = map[bag.Label]int{}, map[bag.Label]int{}
	for id, label := range labels {
		if strings.HasPrefix(id, "f") {
			flood[label]++
		} else {
			honest[label]++
		}
	}
	return honest, flood
}

// A later label without the prompt, or with another one, does not change what the response is trained with.
func TestCollectKeepsThePrompt(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	labels := map[string]feedback.Labels{}
	for i := range f.records {
		b := &f.records[i].Record.Bag
		b.Prompt, labels[b.ID] = "Why "+b.ID+"?", feedback.LabelsOf(*b)
	}
	for id, of := range labels {
		f.judge(id, "later", of)
	}
	f.records[len(f.records)-1].Record.Bag.Prompt = "Another one"

	tr, _ := f.collect(t, testPolicy(), 1000)
	n := 0
	for _, name := range []string{"bags.jsonl", "holdout.jsonl"} {
		file, err := os.Open(tr.path(name))
		require.NoError(t, err)
		defer file.Close()
		for b, err := range bag.Read(file) {
			require.NoError(t, err)
			require.Equal(t, "Why "+b.ID+"?", b.Prompt)
			n++
		}
	}
	require.Greater(t, n, 30)
}

func TestFloodOfOneSender(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	alone, _ := f.collected(t, 1, 10_000)
	f.flood(120)

	unlimited, j := f.collected(t, 1, 10_000)
	require.Zero(t, j.Data.OverShare)
	_, flood := bySender(unlimited)
	require.Greater(t, flood[bag.Violation], 40)

	limited, j := f.collected(t, 0.5, 10_000)
	honest, flood := bySender(limited)
	want, _ := bySender(alone)
	require.Equal(t, want, honest, "nothing of the other sender is omitted")
	require.Equal(t, want, flood)
	require.Equal(t, len(unlimited)-len(limited), j.Data.OverShare-overHeldOut(t, f, j))

	// A maximum of bags does not leave only those of the flood, which are newer.
	few, _ := f.collected(t, 0.5, 20)
	honest, flood = bySender(few)
	require.LessOrEqual(t, len(few), 20)
	require.Greater(t, len(few), 16)
	require.Equal(t, honest, flood)

	none, j := f.collected(t, 0.4, 10_000)
	require.Empty(t, none, "two senders cannot have at most 0.4 each")
	require.Equal(t, 180, j.Data.OverShare)
	require.Empty(t, j.Holdout)
}

// overHeldOut returns the number of held-out responses that a training run omits.
func overHeldOut(t *testing.T, f *fleet, j *job) int {
	t.Helper()
	all := 0
	for _, heldOut := range f.sides() {
		if heldOut {
			all++
		}
	}
	require.Greater(t, all, len(j.Holdout))
	return all - len(j.Holdout)
}

// A promotion adds no more labels of a sender to the hold-out than the share permits, and
// keeps the frozen label of a response where the new one exceeds it.
func TestFloodOfTheHoldout(t *testing.T) {
	f := newFleet()
	f.label(0, 40)
	f.frozen = map[feedback.Hash]feedback.Labels{}
	for b := range f.index.Bags(testSplit()) {
		if b.HeldOut {
			f.frozen[b.ID] = b.Labels
		}
	}
	before := maps.Clone(f.frozen)
	for i := range 40 { // outvotes all labels
		label := feedback.Labels{Whole: labelOf(i%2 != 0)}
		f.send("flood", fmt.Sprint("r", i), "mallory", label)
		f.send("flood", fmt.Sprint("r", i), "malory", label)
	}
	f.flood(60)
	_, j := f.collected(t, 0.5, 10_000)
	after, err := feedback.LoadLabels(j.Holdout, j.HoldoutAspects)
	require.NoError(t, err)
	require.Equal(t, before, after)

	_, j = f.collected(t, 1, 10_000)
	after, err = feedback.LoadLabels(j.Holdout, j.HoldoutAspects)
	require.NoError(t, err)
	require.Greater(t, len(after), len(before))
	for id, labels := range before {
		require.NotEqual(t, labels, after[id])
	}
}
