package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/registry"
	"assay/rewardmodel/retrain"
	"assay/sidecar/processtest"
)

// promote sends labels until a training run has promoted a version, and returns the version.
func promote(t *testing.T, labels *rater, url string) string {
	t.Helper()
	var last retrain.Outcome
	for range 5 { // the gate may reject one
		for range 10 {
			labels.send(labels.newItems(8))
		}
		require.Eventually(t, func() bool { // including a run that has not started yet
			now := awaitIdle(t, url)
			changed := now.ID != last.ID
			last = now
			return changed
		}, trainingTime, 100*time.Millisecond)
		if last.Result == retrain.ResultPromoted {
			processtest.AwaitVersion(t, url, last.Version)
			return last.Version
		}
	}
	require.Equal(t, retrain.ResultPromoted, last.Result, last.Reason)
	return ""
}

// chunks returns the chunks of a file in the object store, with their subject and sequences.
func chunks(t *testing.T, js jetstream.JetStream, name string) (subject string, data [][]byte, sequences []uint64) {
	t.Helper()
	store, err := js.ObjectStore(t.Context(), registry.BucketModels)
	require.NoError(t, err)
	info, err := store.GetInfo(t.Context(), name)
	require.NoError(t, err)
	subject = "$O." + registry.BucketModels + ".C." + info.NUID
	consumer, err := js.OrderedConsumer(t.Context(), "OBJ_"+registry.BucketModels, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	require.NoError(t, err)
	messages, err := consumer.Messages()
	require.NoError(t, err)
	defer messages.Stop()
	for len(data) < int(info.Chunks) {
		msg, err := messages.Next(jetstream.NextMaxWait(processtest.Timeout))
		require.NoError(t, err)
		meta, err := msg.Metadata()
		require.NoError(t, err)
		data, sequences = append(data, msg.Data()), append(sequences, meta.Sequence.Stream)
	}
	return subject, data, sequences
}

// rewrite replaces the chunks of a file in the object store.
func rewrite(t *testing.T, js jetstream.JetStream, name string, change func([][]byte) [][]byte) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "OBJ_"+registry.BucketModels)
	require.NoError(t, err)
	subject, data, sequences := chunks(t, js, name)
	for _, sequence := range sequences {
		require.NoError(t, stream.DeleteMsg(t.Context(), sequence))
	}
	for _, chunk := range change(data) {
		_, err := js.Publish(t.Context(), subject, chunk)
		require.NoError(t, err)
	}
}

// The stored files of the current version are damaged. A new replica, which must download them, reports the failure and
// serves its initial model; replicas that have loaded the version keep serving it. Once the files are restored, the new
// replica loads them without a restart.
func TestDamagedModelInTheStore(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test")
	}
	model := processtest.TinyModel(t, nil)
	c := newClients(t)
	first, second := &endpoint{}, &endpoint{}
	a := processtest.Serve(t, model, t.TempDir(), eagerTrainingFlags()...)
	first.up(a.Ready.HTTP)
	labels := newRater(c, 1, first)
	version := promote(t, labels, a.Ready.HTTP)
	_, js := a.JetStream(t)
	join := func() *processtest.Process {
		return processtest.Serve(t, model, t.TempDir(), eagerTrainingFlags("--nats-url", a.Ready.NATS, "--no-train")...)
	}
	b := join()
	require.Equal(t, version, b.Ready.Model, "it fetched what is current")
	second.up(b.Ready.HTTP)
	one, two := c.score(first), c.score(second)

	weights, config := version+"/model.safetensors", version+"/config.json"
	store, err := js.ObjectStore(t.Context(), registry.BucketModels)
	require.NoError(t, err)
	whole, err := store.GetBytes(t.Context(), config)
	require.NoError(t, err)
	flip := func(chunks [][]byte) [][]byte {
		last := chunks[len(chunks)-1]
		last[len(last)/2] ^= 1
		return chunks
	}
	for _, damage := range []struct {
		name     string
		do, undo func()
	}{
		{"a flipped bit", func() { rewrite(t, js, weights, flip) }, func() { rewrite(t, js, weights, flip) }},
		{"a lost end", func() {
			rewrite(t, js, config, func(chunks [][]byte) [][]byte { return chunks[:len(chunks)-1] })
		}, func() {
			_, err := store.PutBytes(t.Context(), config, whole)
			require.NoError(t, err)
		}},
		{"replaced by another file", func() {
			_, err := store.PutBytes(t.Context(), config, []byte(strings.Replace(string(whole), "0", "1", 1)))
			require.NoError(t, err)
		}, func() {
			_, err := store.PutBytes(t.Context(), config, whole)
			require.NoError(t, err)
		}},
		{"no file", func() { require.NoError(t, store.Delete(t.Context(), config)) }, func() {
			_, err := store.PutBytes(t.Context(), config, whole)
			require.NoError(t, err)
		}},
	} {
		damage.do()
		failures := len(readHistory(t, a.Ready.HTTP, js).of(retrain.EventLoadFailed))
		p := join()
		require.Equal(t, "tiny-1", p.Ready.Model, damage.name)
		require.Equal(t, "tiny-1", processtest.ServedBy(t, p.Ready.HTTP), damage.name)
		past := readHistory(t, p.Ready.HTTP, js)
		require.Len(t, past.of(retrain.EventLoadFailed), failures+1, damage.name)
		for _, e := range past.events {
			if e.Kind == retrain.EventLoadFailed {
				require.Equal(t, version, e.Version)
				require.Contains(t, e.Reason, "tiny-1", damage.name)
				require.Contains(t, e.Reason, retrain.ErrDamaged.Error(), damage.name)
			}
		}
		damage.undo()
		processtest.AwaitVersion(t, p.Ready.HTTP, version)
		p.Kill()
		require.Contains(t, p.Output(), "cannot load the current model version", damage.name)
	}
	c.end()
	for _, s := range []*scoring{one, two} {
		require.NotZero(t, s.answered())
		require.Equal(t, map[string]int{version: s.answered()}, s.served(), "replicas that loaded it keep serving it")
	}
}
