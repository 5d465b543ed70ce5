package fleet_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/queue/registry"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/retrain"
	"assay/sidecar/processtest"
)

// eagerly are flags with which a service trains on little, soon and often, and takes candidates that do not collapse.
func eagerly(more ...string) []string {
	return append([]string{
		"--train-min-bags", "30", "--train-min-each", "5", "--holdout-min", "2", "--train-max-bags", "60",
		"--train-cooldown", "0s", "--train-drift", "0", "--train-disagreement", "0",
		"--train-epochs", "2", "--train-lr", "3e-3", "--train-threads", "1",
		"--gate-margin", "0.9", "--gate-confidence", "0.5", "--gate-allow-shift",
		"--log-format", "json",
	}, more...)
}

// story is what a service tells of its past.
type story struct {
	events  []retrain.Event
	states  map[string]retrain.State // of all versions
	current retrain.Current
}

// tell asks a service.
func tell(t *testing.T, url string, js jetstream.JetStream) story {
	t.Helper()
	s := story{states: map[string]retrain.State{}}
	const most = 1000 // of one answer
	processtest.Fetch(t, fmt.Sprintf("%s/v1/events?n=%d", url, most), &s.events)
	require.Less(t, len(s.events), most, "all of them")
	var models struct {
		Data []struct {
			Version string        `json:"version"`
			State   retrain.State `json:"state"`
		} `json:"data"`
	}
	processtest.Fetch(t, url+"/v1/models", &models)
	for _, m := range models.Data {
		s.states[m.Version] = m.State
	}
	bucket, err := js.KeyValue(t.Context(), registry.BucketState)
	require.NoError(t, err)
	entry, err := bucket.Get(t.Context(), "current")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(entry.Value(), &s.current))
	return s
}

// of lists the versions that events of a kind name, in their order.
func (s story) of(kind retrain.EventKind) (versions []string) {
	for _, e := range s.events {
		if e.Kind == kind {
			versions = append(versions, e.Version)
		}
	}
	return versions
}

// requireSound checks that the records are consistent: every training run started once and ended at most once, and the
// promotions in the events match those in the registry and the versions that were current, once each and in order.
func (s story) requireSound(t *testing.T, initial string) {
	t.Helper()
	began, ended := map[string]int{}, map[string]int{}
	for _, e := range s.events {
		switch e.Kind {
		case retrain.EventTrainingStarted:
			began[e.Training]++
		case retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed:
			ended[e.Training]++
			require.Equal(t, 1, began[e.Training], "what ends has begun, once")
		}
	}
	for id, n := range ended {
		require.Equal(t, 1, n, "ends of training %s", id)
	}
	require.LessOrEqual(t, len(began)-len(ended), 1, "only the last one may be unfinished")

	promoted, rejected := s.of(retrain.EventPromoted), s.of(retrain.EventRejected)
	for version, state := range s.states {
		switch state {
		case retrain.StateInitial:
			require.Equal(t, initial, version)
		case retrain.StatePromoted, retrain.StateRetired:
			require.Contains(t, promoted, version)
		case retrain.StateRejected:
			require.Contains(t, rejected, version)
		}
	}
	require.Len(t, s.states, 1+len(promoted)+len(rejected))
	chain := append(slices.Clone(s.current.Previous), s.current.Version)
	told := append([]string{initial}, promoted...)
	require.Equal(t, told[max(0, len(told)-len(chain)):], chain)
}

// requireVerified checks that versions that answered were such as may: the model of the start, or one that was
// promoted and whose files, here and in the store, are as they were written. Of old ones neither may be kept.
func (s story) requireVerified(t *testing.T, served map[string]int, initial, dataDir string, p *processtest.Process) {
	t.Helper()
	_, js := p.JetStream(t)
	store, err := js.ObjectStore(t.Context(), registry.BucketModels)
	require.NoError(t, err)
	require.Contains(t, served, s.current.Version)
	for version := range served {
		if version == initial {
			continue
		}
		require.Contains(t, s.of(retrain.EventPromoted), version)
		dir := filepath.Join(dataDir, "models", version)
		if version == s.current.Version || processtest.PathExists(dir) {
			c, err := checkpoint.Open(dir)
			require.NoError(t, err)
			require.NoError(t, errors.Join(c.VerifySHA256(t.Context()), c.Close()))
		}
		var m struct {
			State retrain.State           `json:"state"`
			Files map[string]retrain.File `json:"files"`
		}
		processtest.Fetch(t, p.Ready.HTTP+"/v1/models/"+version, &m)
		require.True(t, m.State == retrain.StateRetired || len(m.Files) > 0, version)
		for name, file := range m.Files {
			data, err := store.GetBytes(t.Context(), version+"/"+name)
			require.NoError(t, err)
			require.Equal(t, file.SHA256, fmt.Sprintf("%x", sha256.Sum256(data)), "%s of %s", name, version)
		}
	}
}

// checkExplained says of a training's state whether a person would understand it.
func checkExplained(t *testing.T, body []byte) {
	var got api.Training
	if !assert.NoError(t, json.Unmarshal(body, &got), string(body)) {
		return
	}
	switch got.Phase {
	case retrain.PhaseIdle:
		assert.True(t, got.Wait != "" || got.Feedback.New.Bags > 0, "nothing runs, and nothing is waited for: %s", body)
		if got.Last != nil {
			assert.NotEmpty(t, got.Last.Result, string(body))
			assert.NotEmpty(t, got.Last.Reason, string(body))
		}
	case retrain.PhaseCollecting, retrain.PhaseTraining, retrain.PhaseGating, retrain.PhasePublishing:
		assert.True(t, got.ID != "" && got.Owner != "" && got.Reason != "" && got.Base != "" && got.Trigger != "" && got.Wait != "" &&
			!got.Started.IsZero(), "%s", body)
	default:
		assert.Fail(t, "no such phase", "%s", body)
	}
}

// awaitRest waits until no training runs and none is about to, and returns the last outcome.
func awaitRest(t *testing.T, url string) retrain.Outcome {
	t.Helper()
	var got api.Training
	require.Eventually(t, func() bool {
		got = api.Training{}
		processtest.Fetch(t, url+"/v1/training", &got)
		return got.Phase == retrain.PhaseIdle && got.Wait != "" && got.Last != nil
	}, 3*processtest.Patience, 50*time.Millisecond)
	return *got.Last
}

// requireFairFolders checks the training runs that dead processes left behind: no response twice, and none that one of them
// judges on among those that any learns from. It returns how many it found.
func requireFairFolders(t *testing.T, dataDir string) int {
	t.Helper()
	jobs, err := filepath.Glob(filepath.Join(dataDir, "replicas", "*", "training", "*", "job.json"))
	require.NoError(t, err)
	found := 0
	everLearnt, everJudged := map[string]bool{}, map[string]bool{}
	for _, job := range jobs {
		dir := filepath.Dir(job)
		if !processtest.PathExists(filepath.Join(dir, "bags.jsonl")) || !processtest.PathExists(filepath.Join(dir, "holdout.jsonl")) {
			continue // the training run has ended, and its directory was being removed
		}
		found++
		learnt := requireDistinct(t, processtest.LoadBags(t, filepath.Join(dir, "bags.jsonl")))
		judged := requireDistinct(t, processtest.LoadBags(t, filepath.Join(dir, "holdout.jsonl")))
		require.NotEmpty(t, learnt)
		require.NotEmpty(t, judged)
		for id := range learnt {
			require.NotContains(t, judged, id)
		}
		maps.Copy(everLearnt, learnt)
		maps.Copy(everJudged, judged)
	}
	for id := range everLearnt {
		require.NotContains(t, everJudged, id, "it has changed sides")
	}
	return found
}

func requireDistinct(t *testing.T, bags []bag.Bag) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	for _, b := range bags {
		require.NotContains(t, ids, b.ID)
		ids[b.ID] = true
	}
	return ids
}
