package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assay-ai/assay/rewardmodel/bag"
	"github.com/assay-ai/assay/rewardmodel/retrain"
)

// flipped are bags under the wrong labels.
func flipped(bags []bag.Bag) []bag.Bag {
	out := make([]bag.Bag, len(bags))
	for i, b := range bags {
		b.Label = opposite(b.Label)
		out[i] = b
	}
	return out
}

// TestPoisonedFeedbackIsRejected floods a service with new responses under the wrong labels: they reach the hold-out,
// too, but not the labels that it is judged by.
func TestPoisonedFeedbackIsRejected(t *testing.T) {
	const minBags = 120
	p := serveTiny(t, minBags)
	nc, js := p.jetStream(t)
	happened := followEvents(t, p)
	labels := newLabeller(p, nc)
	labels.tell(t, divided(t, js, wordBags("good-", 600, 1), minBags, heldEach))
	first := happened.wait(t, trainingTime, 1, retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed)
	require.Equal(t, retrain.EventPromoted, first.Kind, happened)
	requireServed(t, p, first.Version)

	heldOut := wordBags("test", 300, 9)
	auroc := servedAUROC(t, p, heldOut)
	client := startSteady(t, p, nc, []string{heldOut[0].Response, heldOut[1].Response, heldOut[2].Response}, 50*time.Millisecond, 1e-5)
	requirePoisonRejected(t, p, happened, labels, first.Version, flipped(wordBags("bad-", 500, 2)), trainingTime)
	client.require(t, first.Version)
	require.Equal(t, auroc, servedAUROC(t, p, heldOut))
}

// requirePoisonRejected sends a flood of wrong labels, which is enough for a training, and waits until its candidate
// is rejected by the gate.
func requirePoisonRejected(t *testing.T, p *process, happened *events, labels *labeller, serving string, flood []bag.Bag, within time.Duration) {
	t.Helper()
	judged := len(happened.of(retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed))
	labels.tell(t, flood)
	verdict := happened.wait(t, within, judged+1, retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed)
	require.Equal(t, retrain.EventRejected, verdict.Kind, happened)
	// Worse on the hold-out, as a rule. Training starts while the flood arrives, and a candidate of its first labels
	// may only move the rewards too far.
	require.Regexp(t, "hold-out|probe set", verdict.Reason)
	requireServed(t, p, serving)

	show, stderr, code := assay(t, "", "models", "show", verdict.Version, "--url", p.ready.HTTP)
	require.Equal(t, exitDone, code, stderr)
	require.Equal(t, `"rejected"`, field(t, show, "state"))
	require.Equal(t, "false", field(t, show, "current"))
	require.Equal(t, "false", field(t, show, "gate.promote"))
	status, stderr, code := assay(t, "", "training", "status", "--url", p.ready.HTTP)
	require.Equal(t, exitDone, code, stderr)
	require.Equal(t, `"rejected"`, field(t, status, "last.result"))
	_, stderr, code = assay(t, "", "models", "promote", verdict.Version, "--url", p.ready.HTTP)
	require.NotEqual(t, exitDone, code, "its files are not kept")
	require.NotEmpty(t, stderr)
}
