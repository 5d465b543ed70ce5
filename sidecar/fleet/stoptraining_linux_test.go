package fleet_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel/retrain"
	"assay/sidecar/processtest"
)

// assay training stop ends the child process of a training run and removes its data. If the service dies before it has
// noticed, the run stays stopped after its restart. The labels of both runs count for the next one.
func TestStopTraining(t *testing.T) {
	at, c, data := &endpoint{}, newClients(t), t.TempDir()
	model := processtest.TinyModel(t, nil)
	// So many epochs that no run ends by itself before it is stopped.
	flags := eagerTrainingFlags("--train-auto=false", "--train-epochs", "100000")
	p := processtest.Serve(t, model, data, flags...)
	at.up(p.Ready.HTTP)
	labels := newRater(c, 1, at)
	labels.send(labels.newItems(100))
	status := func() (s api.Training) {
		processtest.Fetch(t, p.Ready.HTTP+"/v1/training", &s)
		return s
	}
	before := status()
	begin := func(reason string) (run api.Training) {
		requestTraining(t, p.Ready.HTTP, reason)
		require.Eventually(t, func() bool {
			run = status()
			return run.Phase == retrain.PhaseTraining && len(processtest.ChildrenOf(t, p.Cmd.Process.Pid)) == 1
		}, trainingTime, 10*time.Millisecond)
		return run
	}
	stop := func(id string) {
		stdout, stderr, code := assay(t, "", "training", "stop", id, "--reason", "wrong labels", "--url", p.Ready.HTTP)
		require.Zero(t, code, stderr)
		var stopping retrain.Status
		require.NoError(t, json.Unmarshal([]byte(stdout), &stopping))
		require.Equal(t, "loopback", stopping.Canceled.By)
	}

	first := begin("to be stopped")
	_, stderr, code := assay(t, "", "training", "stop", "another", "--url", p.Ready.HTTP)
	require.NotZero(t, code)
	require.Contains(t, stderr, "is in progress, not another")
	stop(first.ID)
	one := awaitIdle(t, p.Ready.HTTP)
	require.Equal(t, retrain.Outcome{ID: first.ID, Result: retrain.ResultCanceled, Reason: "wrong labels", By: "loopback", Finished: one.Finished}, one)
	require.Empty(t, processtest.ChildrenOf(t, p.Cmd.Process.Pid))
	require.Equal(t, before.Feedback.New, status().Feedback.New)
	require.Eventually(t, func() bool {
		left, err := filepath.Glob(filepath.Join(processtest.DataDir(p), "replicas", "*", "training", "*"))
		return err == nil && len(left) == 0
	}, processtest.Timeout, 10*time.Millisecond)
	response, err := http.Post(p.Ready.HTTP+"/v1/training/stop", "application/json", strings.NewReader(`{}`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNotFound, response.StatusCode)

	second := begin("to be stopped just before a crash")
	stop("")
	at.down()
	p.Kill()
	p = processtest.Serve(t, model, data, flags...)
	at.up(p.Ready.HTTP)
	require.Eventually(t, func() bool { s := status(); return s.Phase == retrain.PhaseIdle && s.Last.ID == second.ID }, trainingTime, 10*time.Millisecond)
	two := awaitIdle(t, p.Ready.HTTP)
	require.Equal(t, retrain.ResultCanceled, two.Result)
	require.Equal(t, "loopback", two.By)
	require.Equal(t, "tiny-1", processtest.ServedBy(t, p.Ready.HTTP))
	require.Equal(t, before.Feedback.New, status().Feedback.New)
	_, js := p.JetStream(t)
	past := readHistory(t, p.Ready.HTTP, js)
	require.Len(t, past.of(retrain.EventTrainingCanceled), 2)
	require.Empty(t, past.of(retrain.EventTrained))
	require.Empty(t, past.of(retrain.EventTrainingResumed))
	labels.requireKept(t, at, js)
	c.end()
}
