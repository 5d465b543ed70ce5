package fleet_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
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

// eagerTrainingFlags make a service train early and often on little data, and promote any candidate that has not collapsed.
func eagerTrainingFlags(more ...string) []string {
	return append([]string{
		"--train-min-bags", "30", "--train-min-each", "5", "--holdout-min", "2", "--train-max-bags", "60",
		"--train-cooldown", "0s", "--train-drift", "0", "--train-disagreement", "0",
		"--train-epochs", "2", "--train-lr", "3e-3", "--train-threads", "1",
		"--gate-margin", "0.9", "--gate-confidence", "0.5", "--gate-allow-shift",
		"--log-format", "json",
	}, more...)
}

// history is the record of a service: events, models and current version.
type history struct {
	events  []retrain.Event
	states  map[string]retrain.State // of all versions
	current retrain.Current
}

// readHistory reads the record from a service.
func readHistory(t *testing.T, url string, js jetstream.JetStream) history {
	t.Helper()
	s := history{states: map[string]retrain.State{}}
	const limit = 1000
	at := &endpoint{}
	at.up(url)
	fetch := func(path string, into any) {
		t.Helper()
		var r reply
		require.Eventually(t, func() bool {
			r, _ = at.call(http.DefaultClient, http.MethodGet, path, "")
			return r.code != http.StatusServiceUnavailable // a stream may have no leader, as after the restart of a server
		}, processtest.Timeout, 50*time.Millisecond, path)
		require.NoError(t, r.err)
		require.Equal(t, http.StatusOK, r.code, string(r.body))
		require.NoError(t, json.Unmarshal(r.body, into))
	}
	fetch(fmt.Sprintf("/v1/events?n=%d", limit), &s.events)
	require.Less(t, len(s.events), limit, "the events are complete")
	var models struct {
		Data []struct {
			Version string        `json:"version"`
			State   retrain.State `json:"state"`
		} `json:"data"`
	}
	fetch("/v1/models", &models)
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

// of lists the versions in the events of a kind, in order.
func (s history) of(kind retrain.EventKind) (versions []string) {
	for _, e := range s.events {
		if e.Kind == kind {
			versions = append(versions, e.Version)
		}
	}
	return versions
}

// requireSound checks that the records are consistent: every training run started once and ended at most once, and the
// promotions in the events match those in the registry and the versions that were current, once each and in order.
func (s history) requireSound(t *testing.T, initial string) {
	t.Helper()
	began, ended := map[string]int{}, map[string]int{}
	for _, e := range s.events {
		switch e.Kind {
		case retrain.EventTrainingStarted:
			began[e.Training]++
		case retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed:
			ended[e.Training]++
			require.Equal(t, 1, began[e.Training], "a run that ends has started once")
		}
	}
	for id, n := range ended {
		require.Equal(t, 1, n, "ends of training run %s", id)
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
	want := append([]string{initial}, promoted...)
	require.Equal(t, want[max(0, len(want)-len(chain)):], chain)
}

// requireVerified checks that only the initial model and promoted versions have served, and that the files of the
// promoted ones match their checksums on disk and in the store. The files of retired versions may be removed.
func (s history) requireVerified(t *testing.T, served map[string]int, initial, dataDir string, p *processtest.Process) {
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

// checkExplained checks that a training status has all fields that explain it.
func checkExplained(t *testing.T, body []byte) {
	var got api.Training
	if !assert.NoError(t, json.Unmarshal(body, &got), string(body)) {
		return
	}
	switch got.Phase {
	case retrain.PhaseIdle:
		assert.True(t, got.Wait != "" || got.Feedback.New.Bags > 0, "no run is active, and no reason is given: %s", body)
		if got.Last != nil {
			assert.NotEmpty(t, got.Last.Result, string(body))
			assert.NotEmpty(t, got.Last.Reason, string(body))
		}
	case retrain.PhaseCollecting, retrain.PhaseTraining, retrain.PhaseGating, retrain.PhasePublishing:
		assert.True(t, got.ID != "" && got.Owner != "" && got.Reason != "" && got.Base != "" && got.Trigger != "" && got.Wait != "" &&
			!got.Started.IsZero(), "%s", body)
	default:
		assert.Fail(t, "unknown phase", "%s", body)
	}
}

// awaitIdle waits until no training run is active or due, and returns the last outcome.
func awaitIdle(t *testing.T, url string) retrain.Outcome {
	t.Helper()
	var got api.Training
	require.Eventually(t, func() bool {
		got = api.Training{}
		processtest.Fetch(t, url+"/v1/training", &got)
		return got.Phase == retrain.PhaseIdle && got.Wait != "" && got.Last != nil
	}, trainingTime, 50*time.Millisecond)
	return *got.Last
}

// requireDisjointSplits checks the directories of training runs that killed processes left behind: no response occurs
// twice, and none is in the training data of one run and the hold-out of any. It returns the number of directories.
func requireDisjointSplits(t *testing.T, dataDir string) int {
	t.Helper()
	jobs, err := filepath.Glob(filepath.Join(dataDir, "replicas", "*", "training", "*", "job.json"))
	require.NoError(t, err)
	found := 0
	allTrained, allHeldOut := map[string]bool{}, map[string]bool{}
	for _, job := range jobs {
		dir := filepath.Dir(job)
		if !processtest.PathExists(filepath.Join(dir, "bags.jsonl")) || !processtest.PathExists(filepath.Join(dir, "holdout.jsonl")) {
			continue // the training run has ended, and its directory was being removed
		}
		found++
		trained := requireDistinct(t, processtest.LoadBags(t, filepath.Join(dir, "bags.jsonl")))
		heldOut := requireDistinct(t, processtest.LoadBags(t, filepath.Join(dir, "holdout.jsonl")))
		require.NotEmpty(t, trained)
		require.NotEmpty(t, heldOut)
		for id := range trained {
			require.NotContains(t, heldOut, id)
		}
		maps.Copy(allTrained, trained)
		maps.Copy(allHeldOut, heldOut)
	}
	for id := range allTrained {
		require.NotContains(t, allHeldOut, id, "its split has changed")
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
