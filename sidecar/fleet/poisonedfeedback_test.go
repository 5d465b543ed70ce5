package fleet_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/retrain"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// flipped returns bags with the wrong labels.
func flipped(bags []bag.Bag) []bag.Bag {
	out := make([]bag.Bag, len(bags))
	for i, b := range bags {
		b.Label = opposite(b.Label)
		out[i] = b
	}
	return out
}

// TestPoisonedFeedbackIsRejected floods a service with wrongly labeled new responses. They reach the hold-out, but not
// the frozen labels of the gate. The test starts training runs manually after all labels of a flood are indexed: an
// automatic run would read only some of them, and a few wrong labels may do no harm.
func TestPoisonedFeedbackIsRejected(t *testing.T) {
	const bags = 120
	p := serveTiny(t, bags, "--train-auto=false")
	nc, js := p.JetStream(t)
	happened := followEvents(t, p)
	labels := newLabelingTool(p, nc)
	labels.sendLabels(t, splitBags(t, js, processtest.WordBags("good-", 600, 1), bags, heldEach))
	startTraining(t, p, labels)
	first := happened.wait(t, trainingTime, 1, retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed)
	require.Equal(t, retrain.EventPromoted, first.Kind, happened)
	requireServed(t, p, first.Version)

	heldOut := processtest.WordBags("test", 300, 9)
	auroc := servedAUROC(t, p, heldOut)
	client := startSteadyClient(t, p, nc, []string{heldOut[0].Response, heldOut[1].Response, heldOut[2].Response}, 50*time.Millisecond, 1e-5)
	labels.sendLabels(t, flipped(processtest.WordBags("bad-", 1800, 2)))
	startTraining(t, p, labels)
	requirePoisonRejected(t, p, happened, 2, first.Version, trainingTime)
	client.require(t, first.Version)
	require.Equal(t, auroc, servedAUROC(t, p, heldOut))
}

// startTraining requests a training run after the service has indexed all labels that it accepted.
func startTraining(t *testing.T, p *processtest.Process, labels *labelingTool) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, body := processtest.Get(t, p.Ready.HTTP+"/v1/training")
		return field(t, body, "feedback.records") == strconv.Itoa(len(labels.kept))
	}, processtest.Timeout, 20*time.Millisecond)
	_, stderr, code := assay(t, "", "training", "start", "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
}

// requirePoisonRejected waits until the candidate of a flood of wrong labels, number judged of the service, is rejected
// as worse.
func requirePoisonRejected(t *testing.T, p *processtest.Process, happened *events, judged int, serving string, within time.Duration) {
	t.Helper()
	verdict := happened.wait(t, within, judged, retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed)
	require.Equal(t, retrain.EventRejected, verdict.Kind, happened)
	require.Contains(t, verdict.Reason, "hold-out")
	requireServed(t, p, serving)

	show, stderr, code := assay(t, "", "models", "show", verdict.Version, "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, `"rejected"`, field(t, show, "state"))
	require.Equal(t, "false", field(t, show, "current"))
	require.Equal(t, "false", field(t, show, "gate.promote"))
	require.Equal(t, "false", field(t, show, "gate.holdout.passed"))
	require.Contains(t, field(t, show, "reason"), "bag_auroc")
	status, stderr, code := assay(t, "", "training", "status", "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, `"rejected"`, field(t, status, "last.result"))
	_, stderr, code = assay(t, "", "models", "promote", verdict.Version, "--url", p.Ready.HTTP)
	require.NotEqual(t, cli.ExitDone, code, "its files are not kept")
	require.NotEmpty(t, stderr)
}
