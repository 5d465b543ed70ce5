package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/retrain"
	"assay/sidecar/localmodel"
	"assay/sidecar/processtest"
)

// realTime is the timeout of the loop with a real model on 2 cores.
const realTime = 20 * time.Minute

// realMinBags makes the bags suffice for two training runs.
const realMinBags = 300

// TestFeedbackImprovesARealModel starts a service with a sentence encoder that is not trained on violations, sends
// 1,026 labeled bags of SST-2 sentences, and waits until the service has trained on them.
func TestFeedbackImprovesARealModel(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a real model for minutes")
	}
	backbone := os.Getenv("ASSAY_MINILM")
	if backbone == "" {
		t.Skip("ASSAY_MINILM is not a directory with all-MiniLM-L6-v2")
	}
	training, heldOut, others := sst2Bags(t)
	t.Logf("%d bags to tell of, %d held-out ones", len(training), len(heldOut))

	p := processtest.Launch(t, "--model", backbone, "--allow-untrained", "--data-dir", t.TempDir(),
		"--train-min-bags", fmt.Sprint(realMinBags), "--train-cooldown", "5s")
	require.NotEmpty(t, p.Ready.HTTP, p.Log)
	nc, js := p.JetStream(t)
	before := servedAUROC(t, p, heldOut)
	t.Logf("AUROC %.3f before", before)
	require.InDelta(t, 0.5, before, 0.12)

	happened := followEvents(t, p)
	var texts []string
	for _, b := range heldOut[:30] {
		texts = append(texts, b.Instances...)
	}
	client := startSteadyClient(t, p, nc, texts, 200*time.Millisecond, 5e-3)
	labels := newLabelingTool(p, nc)
	began := time.Now()
	labels.sendLabels(t, training[:len(training)/2])
	happened.wait(t, processtest.Timeout, 1, retrain.EventTrainingStarted)
	labels.sendLabels(t, training[len(training)/2:]) // during the first training run
	untilLearned(t, p, realTime-time.Since(began))
	after := servedAUROC(t, p, heldOut)
	t.Logf("AUROC %.3f after %v:%v", after, time.Since(began).Round(time.Second), happened)
	require.Greater(t, after, 0.72)
	require.GreaterOrEqual(t, len(happened.of(retrain.EventTrainingStarted)), 2)
	require.Empty(t, happened.of(retrain.EventTrainingFailed))
	labels.requireKept(t, js)
	promoted := happened.of(retrain.EventPromoted)
	require.NotEmpty(t, promoted)

	t.Run("poison", func(t *testing.T) {
		judged := len(happened.of(retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed))
		labels.sendLabels(t, flipped(others))
		requirePoisonRejected(t, p, happened, judged+1, promoted[len(promoted)-1].Version, realTime)
		require.Equal(t, after, servedAUROC(t, p, heldOut))
	})
	versions := []string{localmodel.Untrained}
	for _, e := range promoted {
		versions = append(versions, e.Version)
	}
	client.require(t, versions...)
}

// untilLearned waits until no training run is active or due.
func untilLearned(t *testing.T, p *processtest.Process, within time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, body := processtest.Get(t, p.Ready.HTTP+"/v1/training")
		var now struct {
			Phase    retrain.Phase    `json:"phase"`
			Last     *retrain.Outcome `json:"last"`
			Feedback struct {
				New struct {
					Bags int `json:"bags"`
				} `json:"new"`
			} `json:"feedback"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &now))
		return now.Phase == retrain.PhaseIdle && now.Last != nil && now.Feedback.New.Bags < realMinBags
	}, within, time.Second)
}

// sst2Bags returns bags of three samples: for training, for measuring, and for poisoning. Bags for measuring share no
// sentence with bags for training.
func sst2Bags(t *testing.T) (training, heldOut, others []bag.Bag) {
	t.Helper()
	data := os.Getenv("ASSAY_DATA")
	if data == "" {
		data = "../../shared/data"
	}
	read := func(pattern string) (bags []bag.Bag) {
		names, err := filepath.Glob(filepath.Join(data, "bags_sst2", pattern))
		require.NoError(t, err)
		if len(names) != 3 {
			t.Skipf("there are no three files %s below ASSAY_DATA, %s", pattern, data)
		}
		for _, name := range names {
			file, err := os.Open(name)
			require.NoError(t, err)
			defer file.Close()
			for b, err := range bag.Read(file) {
				require.NoError(t, err)
				bags = append(bags, b)
			}
		}
		return bags
	}
	training, heldOut, others = read("sigma2/train.?.jsonl"), read("sigma2/test.?.jsonl"), read("sigma4/train.?.jsonl")
	rng := rand.New(rand.NewPCG(1, 1)) // in the files, the violations come first
	for _, bags := range [][]bag.Bag{training, others} {
		rng.Shuffle(len(bags), func(i, j int) { bags[i], bags[j] = bags[j], bags[i] })
	}
	known := map[string]bool{}
	for _, b := range training {
		for _, sentence := range b.Instances {
			known[sentence] = true
		}
	}
	heldOut = slices.DeleteFunc(heldOut, func(b bag.Bag) bool {
		return slices.ContainsFunc(b.Instances, func(sentence string) bool { return known[sentence] })
	})
	return training, heldOut, others[:400]
}
