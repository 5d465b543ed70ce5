package fleet_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/labels"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
	"assay/sidecar/processtest"
)

// holdoutShare is the --holdout of these services, and heldEach the number of held-out responses of each label with
// which the gate decides at its defaults.
const (
	holdoutShare = 0.2
	heldEach     = 25
)

// trainingTime is the timeout of a training run of the tiny model, which takes seconds: it has the lowest priority, and
// waits as long as other processes of the machine use all cores.
const trainingTime = 20 * time.Minute

// serveTiny starts a service with a random model that trains after every minBags new bags.
func serveTiny(t *testing.T, minBags int, args ...string) *processtest.Process {
	t.Helper()
	return processtest.Serve(t, processtest.TinyBackbone(t), t.TempDir(), append([]string{
		"--allow-untrained", "--holdout-share", fmt.Sprint(holdoutShare), "--train-min-bags", fmt.Sprint(minBags),
		"--train-min-each", "20", "--train-cooldown", "1s", "--train-drift", "0", "--train-disagreement", "0",
		"--train-epochs", "10", "--train-lr", "1e-3", "--train-threads", "1",
	}, args...)...)
}

// TestFeedbackImprovesTheCurrentModel runs the feedback loop twice with a model so small that it takes seconds;
// TestFeedbackImprovesARealModel runs it with a real one.
func TestFeedbackImprovesTheCurrentModel(t *testing.T) {
	const minBags = 120
	p := serveTiny(t, minBags, "--keep-scored", "1h")
	nc, js := p.JetStream(t)
	heldOut := processtest.WordBags("test", 300, 9)
	require.Equal(t, localmodel.Untrained, score(t, p, "", heldOut[:1]).Model.Version)
	before := servedAUROC(t, p, heldOut)
	require.Less(t, before, 0.75, "it knows nothing")

	happened := followEvents(t, p)
	var texts []string
	for _, b := range processtest.WordBags("steady", 30, 8) {
		texts = append(texts, b.Response)
	}
	client := startSteadyClient(t, p, nc, texts, 50*time.Millisecond, 1e-5)
	labels := newLabelingTool(p, nc)

	// The first training run.
	labels.sendLabels(t, splitBags(t, js, processtest.WordBags("one-", 600, 1), minBags, heldEach))
	first := happened.wait(t, trainingTime, 1, retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed)
	require.Equal(t, retrain.EventPromoted, first.Kind, happened)
	v1 := first.Version
	requireServed(t, p, v1)
	client.awaitServed(t, v1)
	require.Greater(t, servedAUROC(t, p, heldOut), 0.9, "of the first model")

	// The second one, whose rewards keep the scale of the first.
	labels.sendLabels(t, splitBags(t, js, processtest.WordBags("two-", 600, 2), minBags, heldEach))
	second := happened.wait(t, trainingTime, 2, retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed)
	require.Equal(t, retrain.EventPromoted, second.Kind, happened)
	v2 := second.Version
	requireServed(t, p, v2)
	client.awaitServed(t, v2)
	require.Greater(t, servedAUROC(t, p, heldOut), 0.9, "of the second model")
	require.Len(t, happened.of(retrain.EventTrainingStarted), 2)
	require.Len(t, happened.of(retrain.EventTrained), 2)
	requireAudit(t, p, v1, v2)

	t.Run("a request pins a version", func(t *testing.T) {
		require.Equal(t, v1, score(t, p, v1, heldOut[:2]).Model.Version)
		require.Equal(t, v2, score(t, p, "", heldOut[:2]).Model.Version)
		body, err := requestBody("nobody-knows-it", []rewardmodel.Item{localmodel.ItemOf(heldOut[0])})
		require.NoError(t, err)
		answer, err := http.Post(p.Ready.HTTP+"/v1/score", "application/json", strings.NewReader(string(body)))
		require.NoError(t, err)
		defer answer.Body.Close()
		require.Equal(t, http.StatusNotFound, answer.StatusCode)
	})
	t.Run("back and forth", func(t *testing.T) {
		stdout, stderr, code := assay(t, "", "models", "rollback", "--url", p.Ready.HTTP, "--reason", "to see the first again")
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Contains(t, stdout, v1)
		requireServed(t, p, v1)
		client.awaitServed(t, v1)
		back := happened.wait(t, processtest.Timeout, 1, retrain.EventRolledBack)
		require.Equal(t, v1, back.Version)
		require.Contains(t, back.Reason, "to see the first again")
		_, stderr, code = assay(t, "", "models", "promote", v2, "--url", p.Ready.HTTP)
		require.Equal(t, cli.ExitDone, code, stderr)
		requireServed(t, p, v2)
		client.awaitServed(t, v2)
	})
	client.require(t, localmodel.Untrained, v1, v2, v1, v2)

	t.Run("metrics", func(t *testing.T) {
		for _, series := range []string{
			`assay_training_run_seconds_count{result="promoted"} 2`, `assay_training_run_seconds_count{result="failed"} 0`,
			`assay_gate_decisions_total{decision="passed"} 2`, `assay_training_phase{phase="idle"} 1`,
			`assay_model_promotions_total{by="gate"} 2`, `assay_model_promotions_total{by="operator"} 1`, `assay_model_rollbacks_total 1`,
		} {
			require.Eventually(t, func() bool {
				_, exposition := processtest.Get(t, p.Ready.HTTP+"/metrics")
				return strings.Contains(exposition, "\n"+series+"\n")
			}, processtest.Timeout, processtest.Timeout/100, series)
		}
		_, exposition := processtest.Get(t, p.Ready.HTTP+"/metrics")
		require.Contains(t, exposition, fmt.Sprintf(`assay_response_reward_count{model_version=%q}`, v2))
		require.NotContains(t, exposition, fmt.Sprintf(`{model_version=%q}`, localmodel.Untrained), "it is unloaded")
	})

	t.Run("what to label next", func(t *testing.T) {
		stdout, stderr, code := assay(t, "", "feedback", "candidates", "-n", "5", "--url", p.Ready.HTTP)
		require.Equal(t, cli.ExitDone, code, stderr)
		var answer struct {
			Candidates []feedback.Candidate `json:"candidates"`
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &answer))
		require.Len(t, answer.Candidates, 5)
		for _, c := range answer.Candidates {
			require.NotEmpty(t, c.Response)
			require.NotContains(t, labels.kept, c.ID)
		}
		// One of them gets a label by its id.
		id := answer.Candidates[0].ID
		receipt := labels.send(t, fmt.Sprintf(`{"response_id":%q,"label":"compliant"}`, id), `{"response_id":"never scored","label":"compliant"}`)
		require.Equal(t, 1, receipt.Accepted)
		require.Equal(t, []feedback.Code{feedback.CodeUnknown}, codesOf(receipt))
		labels.kept[id] = bag.Compliant
		stdout, stderr, code = assay(t, "", "feedback", "candidates", "-n", "1000", "--url", p.Ready.HTTP)
		require.Equal(t, cli.ExitDone, code, stderr)
		require.NotContains(t, stdout, fmt.Sprintf(`"id": %q`, id))
	})
	t.Run("raters who do not agree", func(t *testing.T) {
		b := processtest.WordBags("disputed", 1, 4)[0]
		b.Rater = "anna"
		one := line(t, b)
		b.Rater, b.Label = "bert", bag.Violation
		require.Equal(t, 2, labels.send(t, one, line(t, b)).Accepted)
		stdout, stderr, code := assay(t, "", "feedback", "show", "--url", p.Ready.HTTP)
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Equal(t, "1", field(t, stdout, "disputed"))
		requireErased(t, p, js, b.ID, 2, b.Response)
	})
	t.Run("erasure", func(t *testing.T) {
		gone := labels.older[0]
		requireErased(t, p, js, gone.ID, 1, gone.Response)
		require.Equal(t, []feedback.Code{feedback.CodeErased}, codesOf(labels.send(t, line(t, gone))))
		delete(labels.kept, gone.ID)
	})
	labels.requireKept(t, js)

	// Everything is kept over a restart.
	p.Signal(t)
	require.Equal(t, cli.ExitDone, p.Wait(t), p.Output())
	p = processtest.Launch(t, p.Cmd.Args[2:]...)
	require.Equal(t, v2, p.Ready.Model)
	_, js = p.JetStream(t)
	labels.requireKept(t, js)
}

// requireServed waits until a version serves.
func requireServed(t *testing.T, p *processtest.Process, version string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return score(t, p, "", []bag.Bag{{Response: "Who is there?"}}).Model.Version == version
	}, processtest.Timeout, 20*time.Millisecond, "%s does not serve", version)
	status, body := processtest.Get(t, p.Ready.HTTP+"/v1/models/"+version)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "true", field(t, body, "current"))
	require.Equal(t, "true", field(t, body, "serving"))
}

// requireAudit checks the records of two consecutive versions.
func requireAudit(t *testing.T, p *processtest.Process, v1, v2 string) {
	t.Helper()
	for version, parent := range map[string]string{v1: localmodel.Untrained, v2: v1} {
		show, stderr, code := assay(t, "", "models", "show", version, "--url", p.Ready.HTTP)
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Equal(t, `"`+parent+`"`, field(t, show, "parent"))
		require.Equal(t, `"promoted"`, field(t, show, "state"))
		require.Equal(t, `"gate"`, field(t, show, "by"))
		require.Equal(t, `"bags"`, field(t, show, "data.trigger"))
		require.Equal(t, "true", field(t, show, "gate.promote"))
		require.NotEmpty(t, field(t, show, "gate.holdout.interval"))
		require.Contains(t, field(t, show, "files"), "model.safetensors")
	}
	// The service applies the calibration of the gate.
	show, _, _ := assay(t, "", "models", "show", v2, "--url", p.Ready.HTTP)
	stored, err := checkpoint.Open(filepath.Join(processtest.DataDir(p), "models", v2))
	require.NoError(t, err)
	defer stored.Close()
	fitted, err := json.Marshal(stored.Manifest.Calibration, json.Deterministic(true))
	require.NoError(t, err)
	require.Contains(t, stored.Manifest.Calibration, "max")
	require.JSONEq(t, field(t, show, "gate.calibration"), string(fitted))
}

// requireErased erases a response and searches the streams and the disk for its text.
func requireErased(t *testing.T, p *processtest.Process, js jetstream.JetStream, id string, records int, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return onDisk(t, p, text) }, processtest.Timeout, 50*time.Millisecond, "the text was never there")
	stdout, stderr, code := assay(t, "", "feedback", "erase", id, "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, fmt.Sprint(records), field(t, stdout, "records"))
	stream, err := js.Stream(t.Context(), labels.StreamFeedback)
	require.NoError(t, err)
	_, err = stream.GetLastMsgForSubject(t.Context(), labels.SubjectFeedback+".item."+feedback.HashOf(id).String()+".>")
	require.ErrorIs(t, err, jetstream.ErrMsgNotFound)
	require.False(t, onDisk(t, p, text))
}

// onDisk searches the data of the service for a text.
func onDisk(t *testing.T, p *processtest.Process, text string) (found bool) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(processtest.DataDir(p), func(path string, d os.DirEntry, err error) error {
		var data []byte
		if err == nil && !d.IsDir() {
			data, err = os.ReadFile(path)
		}
		if errors.Is(err, os.ErrNotExist) { // removed meanwhile
			err = nil
		}
		found = found || strings.Contains(string(data), text)
		return err
	}))
	return found
}
