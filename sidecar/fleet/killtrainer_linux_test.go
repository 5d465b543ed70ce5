package fleet_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel/retrain"
	"assay/sidecar/processtest"
)

// killTrainer kills the child process that trains or runs the gate when reached reports true for the training status, and
// returns the run. A service has no other child process.
func killTrainer(t *testing.T, p *processtest.Process, reached func(api.Training) bool) (killed api.Training) {
	t.Helper()
	require.Eventually(t, func() bool {
		killed = api.Training{}
		processtest.Fetch(t, p.Ready.HTTP+"/v1/training", &killed)
		if !reached(killed) {
			return false
		}
		children := processtest.ChildrenOf(t, p.Cmd.Process.Pid)
		return len(children) == 1 && syscall.Kill(children[0], syscall.SIGKILL) == nil
	}, trainingTime, 10*time.Millisecond)
	return killed
}

// completeEpochs returns the number of complete epochs after which the training run can resume.
func completeEpochs(t *testing.T, dataDir, id string) (n int) {
	t.Helper()
	states, err := filepath.Glob(filepath.Join(dataDir, "replicas", "*", "training", id, "assay.training", "state.json"))
	require.NoError(t, err)
	for _, state := range states {
		data, err := os.ReadFile(state)
		if err == nil {
			var s struct {
				Epochs int `json:"epochs"`
			}
			require.NoError(t, json.Unmarshal(data, &s))
			n = s.Epochs
		}
	}
	return n
}

// requestTraining requests a training run.
func requestTraining(t *testing.T, url, reason string) {
	t.Helper()
	response, err := http.Post(url+"/v1/training", "application/json", strings.NewReader(fmt.Sprintf(`{"reason":%q}`, reason)))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusAccepted, response.StatusCode)
}

// After the training process is killed twice, the run resumes; after three times, it fails. Scoring is not affected.
func TestKillNineOfTheTrainer(t *testing.T) {
	at, c := &endpoint{}, newClients(t)
	p := processtest.Serve(t, processtest.TinyModel(t, nil), t.TempDir(), eagerTrainingFlags("--train-auto=false", "--train-epochs", "12")...)
	at.up(p.Ready.HTTP)
	rewards, labels := c.score(at), newRater(c, 1, at)
	labels.send(labels.newItems(100))
	_, js := p.JetStream(t)

	requestTraining(t, p.Ready.HTTP, "to be killed twice")
	first := killTrainer(t, p, func(s api.Training) bool {
		return s.Phase == retrain.PhaseTraining && completeEpochs(t, processtest.DataDir(p), s.ID) > 1
	})
	killTrainer(t, p, func(s api.Training) bool { return s.Phase == retrain.PhaseGating })
	one := awaitIdle(t, p.Ready.HTTP)
	require.Equal(t, first.ID, one.ID)
	require.NotEqual(t, retrain.ResultFailed, one.Result, one.Reason)
	require.Zero(t, one.Failures)
	require.Len(t, readHistory(t, p.Ready.HTTP, js).of(retrain.EventTrainingResumed), 2)

	labels.send(labels.newItems(50))
	var before api.Training
	processtest.Fetch(t, p.Ready.HTTP+"/v1/training", &before)
	if one.Result == retrain.ResultPromoted { // or rejected: that depends on the hold-out
		processtest.AwaitVersion(t, p.Ready.HTTP, one.Version)
	}
	serving := processtest.ServedBy(t, p.Ready.HTTP)
	requestTraining(t, p.Ready.HTTP, "to be killed three times")
	for attempt := 1; attempt <= 3; attempt++ {
		killTrainer(t, p, func(s api.Training) bool { return s.Phase == retrain.PhaseTraining && s.Attempt == attempt })
	}
	require.Eventually(t, func() bool {
		var now api.Training
		processtest.Fetch(t, p.Ready.HTTP+"/v1/training", &now)
		return now.Phase == retrain.PhaseIdle && now.Last.ID != one.ID
	}, trainingTime, 10*time.Millisecond)
	two := awaitIdle(t, p.Ready.HTTP)
	require.Equal(t, retrain.ResultFailed, two.Result)
	require.Contains(t, two.Reason, "killed")
	require.Equal(t, 1, two.Failures)
	var after api.Training
	processtest.Fetch(t, p.Ready.HTTP+"/v1/training", &after)
	require.Equal(t, before.Feedback.New, after.Feedback.New, "labels that a failed training run has read are still new")
	past := readHistory(t, p.Ready.HTTP, js)
	require.Len(t, past.of(retrain.EventTrainingFailed), 1)
	require.Equal(t, serving, processtest.ServedBy(t, p.Ready.HTTP))
	past.requireSound(t, "tiny-1")
	labels.requireKept(t, at, js)
	c.end()
	past.requireVerified(t, rewards.served(), "tiny-1", processtest.DataDir(p), p)
	t.Logf("%d rewards of %d versions meanwhile; the first training run ended %s: %s", rewards.answered(), len(rewards.served()), one.Result, one.Reason)
}
