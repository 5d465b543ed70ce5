package fleet_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/rewardmodel/retrain"
	"assay/sidecar/processtest"
)

// replicaID returns the id of the only replica that has run on a data directory.
func replicaID(t *testing.T, dataDir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dataDir, "replicas"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return entries[0].Name()
}

// Three replicas on a cluster of three NATS servers receive labels. During the training run, the replica that trains and
// the leader of the state streams are killed. Another replica promotes exactly one version, all live replicas serve it
// and keep scoring, and no label is lost. The killed processes rejoin.
func TestFleetLosesAServerAndAReplica(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test")
	}
	began := time.Now()
	cluster := queuetest.StartCluster(t, 3)
	model, c, raters := processtest.TinyModel(t, nil), newClients(t), newClients(t)
	flags := eagerTrainingFlags("--nats-url", cluster.URL(), "--stream-replicas", "3", "--train-min-bags", "60", "--train-epochs", "60")
	const size = 3
	var replicas [size]*processtest.Process
	var endpoints [size]*endpoint
	var rewards [size]*scoring
	var data [size]string
	for i := range replicas {
		data[i], endpoints[i] = t.TempDir(), &endpoint{}
		replicas[i] = processtest.Serve(t, model, data[i], flags...)
		endpoints[i].up(replicas[i].Ready.HTTP)
		rewards[i] = c.score(endpoints[i])
	}
	labels := newRater(raters, 3, endpoints[:]...)
	labels.retry503 = true // during the election of a stream leader
	nc, err := nats.Connect(cluster.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)

	for labels.known() < 120 { // four in five are trained on
		labels.send(labels.newItems(10))
	}
	var training api.Training
	require.Eventually(t, func() bool {
		training = api.Training{}
		processtest.Fetch(t, replicas[0].Ready.HTTP+"/v1/training", &training)
		return training.Phase == retrain.PhaseTraining && training.Progress != nil
	}, trainingTime, 20*time.Millisecond)

	dead := -1
	for i := range replicas {
		if replicaID(t, data[i]) == training.Owner {
			dead = i
		}
	}
	require.GreaterOrEqual(t, dead, 0)
	node := cluster.Leader("KV_" + registry.BucketState)
	cluster.Kill(node)
	endpoints[dead].down()
	replicas[dead].Kill()
	labels.send(labels.newItems(10)) // too few for another training run

	living := (dead + 1) % size
	outcome := awaitIdle(t, replicas[living].Ready.HTTP)
	require.Equal(t, training.ID, outcome.ID, "it was taken over")
	require.Equal(t, retrain.ResultPromoted, outcome.Result, outcome.Reason)
	require.Equal(t, 1, requireDisjointSplits(t, data[dead]))
	for i, p := range replicas {
		if i != dead {
			processtest.AwaitVersion(t, p.Ready.HTTP, outcome.Version)
		}
	}
	taken := time.Since(began)

	cluster.Restart(node)
	replicas[dead] = processtest.Serve(t, model, data[dead], flags...)
	endpoints[dead].up(replicas[dead].Ready.HTTP)
	processtest.AwaitVersion(t, replicas[dead].Ready.HTTP, outcome.Version)
	labels.send(labels.newItems(10))
	raters.end()
	for i := range replicas { // its client may still wait for a retry
		require.Eventually(t, func() bool { return rewards[i].served()[outcome.Version] > 0 }, processtest.Timeout, 10*time.Millisecond)
	}
	for i := range replicas {
		past := readHistory(t, replicas[i].Ready.HTTP, js)
		past.requireSound(t, "tiny-1")
		require.Equal(t, []string{outcome.Version}, past.of(retrain.EventPromoted))
		require.NotEmpty(t, past.of(retrain.EventTrainingResumed))
		past.requireVerified(t, rewards[i].served(), "tiny-1", data[i], replicas[i])
		labels.requireKept(t, endpoints[i], js)
	}
	c.end()
	t.Logf("replica %d and server %d killed; promoted by another after %v; %d labels; %d, %d and %d rewards",
		dead, node, taken.Round(time.Second), labels.known(), rewards[0].answered(), rewards[1].answered(), rewards[2].answered())
}
