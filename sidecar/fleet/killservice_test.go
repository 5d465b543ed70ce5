package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/registry"
	"assay/rewardmodel/retrain"
	"assay/sidecar/processtest"
)

const (
	// phaseIngest is a moment defined by received feedback, in any phase of the training run.
	phaseIngest retrain.Phase = "ingest"
	// phaseStart is the time before a service is ready.
	phaseStart retrain.Phase = "start"
)

// moments are when processes are killed: up to a delay after the start of a phase.
var moments = []struct {
	phase retrain.Phase
	after time.Duration
}{
	{phaseIngest, 0},
	{retrain.PhaseCollecting, 20 * time.Millisecond},
	{phaseStart, 1500 * time.Millisecond},
	{retrain.PhaseTraining, time.Second},
	{retrain.PhaseGating, time.Second},
	{retrain.PhasePublishing, 150 * time.Millisecond},
}

// momentTime is the timeout of a moment, after which the process is killed in any phase.
const momentTime = 30 * time.Second

// watchTraining follows the training status.
func watchTraining(t *testing.T, js jetstream.JetStream) jetstream.KeyWatcher {
	t.Helper()
	bucket, err := js.KeyValue(t.Context(), registry.BucketState)
	require.NoError(t, err)
	watcher, err := bucket.Watch(t.Context(), "training")
	require.NoError(t, err)
	return watcher
}

// awaitMoment waits for a moment and returns the phase at that time.
func awaitMoment(t *testing.T, js jetstream.JetStream, r *rater, rng *rand.Rand, phase retrain.Phase, after time.Duration) retrain.Phase {
	t.Helper()
	watcher := watchTraining(t, js)
	defer func() { require.NoError(t, watcher.Stop()) }()
	limit := time.NewTimer(momentTime)
	defer limit.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	enough := r.acknowledgedBatches() + 1 + rng.IntN(15)
	last, fresh := retrain.PhaseIdle, false
	var now <-chan time.Time
	for {
		select {
		case update := <-watcher.Updates():
			if update == nil { // those after it are new
				fresh = true
				continue
			}
			var status retrain.Status
			require.NoError(t, json.Unmarshal(update.Value(), &status))
			last = status.Phase
			if fresh && last == phase && now == nil {
				now = time.After(time.Duration(rng.Int64N(int64(after))))
			}
		case <-look.C:
			if phase == phaseIngest && r.acknowledgedBatches() >= enough {
				return last
			}
		case <-now:
			return last
		case <-limit.C:
			return last
		}
	}
}

// A service is killed at random moments while it receives labels, trains on them and scores. No acknowledged label is
// lost, no training run reads the hold-out, only versions that passed the gate serve, and every training run ends.
func TestKillNineOfAServiceThatLearns(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = len(moments)
	}
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	model, data := processtest.TinyModel(t, nil), t.TempDir()
	at, raters, others := &endpoint{}, newClients(t), newClients(t)
	rewards, labels := others.score(at), newRater(raters, seed, at)
	others.every(100*time.Millisecond, func() {
		if got, sent := at.call(others.http, http.MethodGet, "/v1/training", ""); sent && !got.excused {
			if got.code != http.StatusOK {
				t.Errorf("training status: %d %s %v", got.code, got.body, got.err)
				return
			}
			checkExplained(t, got.body)
		}
	})
	begin := func() *processtest.Process {
		p := processtest.Serve(t, model, data, eagerTrainingFlags()...)
		at.up(p.Ready.HTTP)
		return p
	}

	began := time.Now()
	labels.sendMixed(150 * time.Millisecond)
	killed, dirs := map[retrain.Phase]int{}, 0
	first := rng.IntN(len(moments))
	for k := range kills {
		m := moments[(first+k)%len(moments)]
		var p *processtest.Process
		if m.phase == phaseStart {
			p = processtest.Start(t, processtest.Serving(model, data, eagerTrainingFlags()...)...)
			<-time.After(time.Duration(rng.Int64N(int64(m.after))))
			killed[m.phase]++
		} else {
			p = begin()
			nc, js := p.JetStream(t)
			killed[awaitMoment(t, js, labels, rng, m.phase, m.after)]++
			nc.Close()
			at.down()
		}
		p.Kill()
		dirs += requireDisjointSplits(t, data)
	}
	p := begin()
	raters.end()
	last := awaitIdle(t, p.Ready.HTTP)
	_, js := p.JetStream(t)
	past := readHistory(t, p.Ready.HTTP, js)
	processtest.AwaitVersion(t, p.Ready.HTTP, past.current.Version)
	// Its client may still wait for a retry.
	require.Eventually(t, func() bool { return rewards.served()[past.current.Version] > 0 }, processtest.Timeout, 10*time.Millisecond)
	others.end()

	labels.requireKept(t, at, js)
	past.requireSound(t, "tiny-1")
	past.requireVerified(t, rewards.served(), "tiny-1", data, p)
	require.Empty(t, past.of(retrain.EventTrainingFailed), "a training run resumes after a restart of its service")
	require.Empty(t, past.of(retrain.EventLoadFailed))
	require.NotEqual(t, retrain.ResultFailed, last.Result)
	t.Logf("%d kills in %v, by phase %s; %d training directories checked; %d labels in %d batches; %d rewards of %d versions; %d promoted, %d rejected; %d events",
		kills, time.Since(began).Round(time.Second), fmt.Sprint(killed), dirs, labels.known(), labels.acknowledgedBatches(),
		rewards.answered(), len(rewards.served()), len(past.of(retrain.EventPromoted)), len(past.of(retrain.EventRejected)), len(past.events))
}
