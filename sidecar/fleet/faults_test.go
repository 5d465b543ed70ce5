package fleet_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/sidecar/processtest"
)

const (
	faultResponses = 20000 // minimum
	faultSubjects  = 50
	faultReplicas  = 4
	faultRate      = 100 // responses per second during faults
	faultAckWait   = 30 * time.Second
	faultDrain     = 10 * time.Second // the --shutdown-timeout of each replica
)

// faults is a fleet of replicas on a cluster, a publisher, and the faults that are injected.
type faults struct {
	t           *testing.T
	began       time.Time
	cluster     *queuetest.Cluster
	gate        *queuetest.Gate // of the publisher and the checks
	replicas    []*faultyReplica
	fleet       *promotions
	js          jetstream.JetStream
	pub         *publisher
	drains      []time.Duration
	completions []time.Duration // from the end of a drain until what was pending then is completed
	killed      map[string]int
}

// streams that must have all replicas again before the next fault.
var faultStreams = []string{queue.StreamResponses, queue.StreamRewards, registry.StreamEvents,
	"KV_" + registry.BucketState, "OBJ_" + registry.BucketModels}

// A cluster of three NATS servers, four replicas and a publisher of 20,000 responses. Servers and replicas are killed,
// partitioned in both ways and restored, one version is promoted and another rolled back, and a rolling update replaces
// the replicas with another build. Every response gets one reward, no connected replica serves an old version for long,
// every drain ends in time and leaves nothing to redeliver after AckWait, and HTTP always responds.
func TestFleetUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test")
	}
	f := newFaults(t)
	c := newClients(t)
	for _, r := range f.replicas {
		r.watch(c)
	}

	// A rolling update, with a promotion while both builds serve.
	for i := range f.replicas {
		f.roll(i, os.Args[0], 2*processtest.Timeout) // the other build may leave some unfinished
		if i == faultReplicas/2-1 {
			f.promote(i, "/v1/models/tiny-2/promote", "tiny-2")
			f.serving()
		}
	}
	f.note("rolled out, tiny-2 is current")

	for i, r := range f.replicas {
		f.kill(r)
		f.progress(100)
		r.up(os.Args[0])
		if i < 3 {
			f.killNode(i)
		}
	}
	f.note("each server and each replica was killed once")

	for i, network := range []queuetest.Network{queuetest.Swallowing, queuetest.Refusing} {
		r := f.replicas[i]
		r.part(network)
		f.killed[fmt.Sprint("replica cut off: ", networkName(network))]++
		r.isReady(false)
		f.progress(200)
		if network == queuetest.Swallowing { // it learns of the promotion when the network is restored
			f.promote(2, "/v1/models/rollback", "tiny-1")
		}
		r.heal()
		r.isReady(true)
		f.serving()
	}
	f.note("two replicas were cut off, tiny-1 is current again")
	for i, network := range []queuetest.Network{queuetest.Refusing, queuetest.Swallowing} {
		node := f.cluster.Leader([]string{queue.StreamResponses, queue.StreamRewards}[i])
		f.replicas[0].gate.Set(queuetest.Refusing, node) // on the side of the majority, as is the publisher
		f.gate.Set(queuetest.Refusing, node)
		f.isolate(node, network)
		f.killed[fmt.Sprint("server cut off from the others: ", networkName(network))]++
		f.progress(200)
		if network == queuetest.Swallowing {
			f.promote(0, "/v1/models/tiny-2/promote", "tiny-2")
		}
		f.isolate(node, queuetest.Passing)
		f.replicas[0].heal()
		f.gate.Set(queuetest.Passing)
		f.healthy()
		f.serving()
	}
	f.note("two servers were cut off from the others, tiny-2 is current")

	// One server is unreachable for one replica, which reconnects to another.
	f.replicas[3].gate.Set(queuetest.Swallowing, 0)
	f.replicas[2].gate.Set(queuetest.Refusing, 1)
	f.killed["one server out of reach of one replica"] += 2
	f.progress(300)
	f.replicas[3].heal()
	f.replicas[2].heal()

	f.completed()
	for i := range f.replicas {
		f.roll(i, os.Args[0], faultAckWait/2)
	}
	f.note("rolled again")
	close(f.pub.hurry)
	f.pub.done.Wait()
	require.Equal(t, f.pub.next.Load(), f.pub.acked.Load())
	f.completed()
	c.end()
	f.verify()
}

func networkName(n queuetest.Network) string {
	return map[queuetest.Network]string{queuetest.Swallowing: "half-open", queuetest.Refusing: "refused"}[n]
}

// newFaults starts cluster, publisher and replicas, the replicas with another build.
func newFaults(t *testing.T) *faults {
	t.Helper()
	f := &faults{t: t, began: time.Now(), cluster: queuetest.StartPartitionable(t, 3), fleet: &promotions{version: "tiny-1"}, killed: map[string]int{}}
	t.Cleanup(f.explain)
	f.gate = f.cluster.Gate()
	nc, err := nats.Connect(f.gate.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(2*time.Second))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	f.js, err = jetstream.New(nc)
	require.NoError(t, err)
	binary, real := anotherBuild()
	if !real {
		t.Log("ASSAY_OLD_BIN is not set: the replicas are replaced by the same build")
	}
	model := processtest.TinyModel(t, nil)
	for n := range faultReplicas {
		r := &faultyReplica{t: t, n: n, fleet: f.fleet, gate: f.cluster.Gate(), data: t.TempDir(), model: model,
			counted: map[string]float64{}, answers: map[int]int{}, flags: []string{
				"--stream-replicas", "3", "--stream-duplicate-window", "1m", "--train-auto=false",
				"--ack-wait", faultAckWait.String(), "--shutdown-timeout", faultDrain.String(),
			}}
		f.replicas = append(f.replicas, r)
		r.up(binary)
	}
	processtest.Register(t, f.cluster, "tiny-2")
	f.healthy()
	f.pub = startPublisher(t, f.js, faultResponses, faultSubjects, faultRate)
	f.note("started")
	return f
}

// explain logs the last output of the replicas after a failure.
func (f *faults) explain() {
	if !f.t.Failed() {
		return
	}
	for _, r := range f.replicas {
		lines := slices.DeleteFunc(strings.Split(r.process.Output(), "\n"), func(line string) bool { return strings.Contains(line, `"message":"request"`) })
		f.t.Logf("replica %d:\n%s", r.n, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
}

func (f *faults) note(format string, args ...any) {
	f.t.Logf("%5.1f s: %s; %d published", time.Since(f.began).Seconds(), fmt.Sprintf(format, args...), f.pub.acked.Load())
}

// promote promotes a version through a replica.
func (f *faults) promote(replica int, path, version string) {
	f.t.Helper()
	f.fleet.begin(version)
	processtest.PostUntilOK(f.t, f.replicas[replica].process, path)
	f.fleet.set(version)
	f.note("%s promoted through replica %d", version, replica)
}

// isolate partitions a server from the others, or restores the network. A replica connected to it cannot learn of a
// promotion: for some seconds the server still replies as the leader.
func (f *faults) isolate(node int, network queuetest.Network) {
	for _, r := range f.replicas {
		r.mu.Lock()
		if r.isolated = network != queuetest.Passing && r.gate.Connected(node); r.isolated {
			r.connected = time.Time{}
		}
		r.mu.Unlock()
	}
	f.cluster.Isolate(node, network)
}

// serving waits until all replicas serve the current version.
func (f *faults) serving() {
	f.t.Helper()
	version, _ := f.fleet.now()
	for _, r := range f.replicas {
		processtest.AwaitVersion(f.t, r.process.Ready.HTTP, version)
	}
}

// roll replaces a replica with one of another build. What was pending at its end must be completed within a timeout.
func (f *faults) roll(i int, binary string, within time.Duration) {
	f.t.Helper()
	r := f.replicas[i]
	f.progress(50)
	f.drains = append(f.drains, r.drain())
	last, began := f.responses().LastSeq, time.Now()
	f.passed(last, within)
	f.completions = append(f.completions, time.Since(began))
	r.up(binary)
	r.isReady(true)
}

func (f *faults) kill(r *faultyReplica) {
	f.progress(50)
	r.kill()
	f.killed["replica killed"]++
	f.note("replica %d killed", r.n)
}

func (f *faults) killNode(i int) {
	f.cluster.Kill(i)
	f.killed["server killed"]++
	f.note("server %d killed", i)
	f.progress(100)
	f.cluster.Restart(i)
	f.healthy()
}

func (f *faults) healthy() {
	for _, s := range faultStreams {
		f.cluster.Healthy(s)
	}
}

// progress waits until n more responses are acknowledged and n more rewards stored.
func (f *faults) progress(n int) {
	f.t.Helper()
	acked, rewards := f.pub.acked.Load(), f.state(queue.StreamRewards).LastSeq
	moved := func() bool {
		return f.pub.acked.Load() >= acked+int64(n) && f.state(queue.StreamRewards).LastSeq >= rewards+uint64(n)
	}
	for began := time.Now(); !moved(); <-time.After(50 * time.Millisecond) {
		if time.Since(began) > 2*processtest.Timeout {
			require.Fail(f.t, "no progress", "published %d, then %d; rewards %d, then %d; the responses: %+v", acked, f.pub.acked.Load(),
				rewards, f.state(queue.StreamRewards).LastSeq, f.responses())
		}
	}
}

func (f *faults) responses() jetstream.StreamState { return f.state(queue.StreamResponses) }

// state waits for the state of a stream.
func (f *faults) state(stream string) (state jetstream.StreamState) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		s, err := f.js.Stream(f.t.Context(), stream)
		if err == nil {
			state = s.CachedInfo().State
		}
		return err == nil
	}, processtest.Timeout, 20*time.Millisecond)
	return state
}

// passed waits until all responses up to a sequence are completed.
func (f *faults) passed(last uint64, within time.Duration) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		state := f.responses()
		return state.Msgs == 0 || state.FirstSeq > last
	}, within, 20*time.Millisecond, "responses are left to be found by AckWait")
}

// completed waits until all published responses are completed.
func (f *faults) completed() {
	f.t.Helper()
	f.passed(f.responses().LastSeq, 2*processtest.Timeout)
}

// verify checks the guarantees.
func (f *faults) verify() {
	t := f.t
	f.note("done")
	require.Zero(t, f.state(queue.StreamDead).Msgs)
	require.Zero(t, f.responses().Msgs)
	got := readRewards(t, f.js)
	var missing []string
	published := int(f.pub.acked.Load())
	for i := range published {
		if id := fmt.Sprintf("r%05d", i); got.times[id] == 0 {
			missing = append(missing, id)
		}
	}
	sum := map[string]float64{}
	for _, r := range f.replicas {
		r.count()
		for name, value := range r.counted {
			sum[name] += value
		}
		r.mu.Lock()
		t.Logf("replica %d: answers %v; longest time without one %v; longest on an old version while connected %v",
			r.n, r.answers, r.outage.Round(10*time.Millisecond), r.stale.Round(10*time.Millisecond))
		require.Empty(t, r.faults[:min(5, len(r.faults))], "replica %d, %d faults", r.n, len(r.faults))
		r.mu.Unlock()
	}
	t.Logf("done to them: %v", f.killed)
	t.Logf("publisher: %d attempts failed, %d were stored before, the slowest took %v", f.pub.again.Load(), f.pub.known.Load(), f.pub.slowest.Round(10*time.Millisecond))
	t.Logf("rewards: %d of %d responses, %d twice, %d out of the order of their subject; by version %v", len(got.times), published, got.extra, got.inversions, got.versions)
	for _, name := range []string{`assay_nats_messages_total{outcome="duplicate"}`, `assay_nats_messages_total{outcome="store_failed"}`,
		`assay_nats_messages_total{outcome="shutting_down"}`, "assay_nats_redeliveries_total", "assay_nats_publish_errors_total"} {
		t.Logf("%s %v", name, sum[name])
	}
	t.Logf("drains %v, at most %v; pending responses completed after at most %v", rounded(f.drains), slices.Max(f.drains).Round(time.Millisecond), slices.Max(f.completions).Round(time.Millisecond))
	require.Empty(t, missing)
	require.Len(t, got.times, published)
	require.Zero(t, got.extra, "a reward twice")
	for _, took := range f.drains {
		require.Less(t, took, faultDrain+time.Second)
	}
}

func rounded(ds []time.Duration) []time.Duration {
	out := make([]time.Duration, len(ds))
	for i, d := range ds {
		out[i] = d.Round(10 * time.Millisecond)
	}
	return out
}
