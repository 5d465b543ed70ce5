package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"assay/queue"
	"assay/queue/labels"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/sidecar/processtest"
)

const (
	fleetReplicas = 2
	fleetServers  = 3
)

// fleet is replicas on a cluster of NATS servers.
type fleet struct {
	t        *testing.T
	cluster  *queuetest.Cluster
	gates    []*queuetest.Gate // of each replica
	replicas []*replica
}

// fleetStreams must have all their copies before the next fault: what is promised is that one server at a time may fail.
var fleetStreams = []string{queue.StreamResponses, queue.StreamRewards, queue.StreamDead, labels.StreamFeedback, registry.StreamEvents,
	"KV_" + registry.BucketState, "OBJ_" + registry.BucketModels}

func newFleet(t *testing.T, models *models, s schedule) *fleet {
	t.Helper()
	f := &fleet{t: t, cluster: queuetest.StartPartitionable(t, fleetServers)}
	for range fleetReplicas {
		gate := f.cluster.Gate()
		flags := append(processtest.Serving(models.dirs[0], t.TempDir(), "--nats-url", gate.URL(), "--stream-replicas", fmt.Sprint(f.copies())), serviceFlags(s)...)
		f.gates = append(f.gates, gate)
		f.replicas = append(f.replicas, &replica{t: t, flags: flags})
	}
	return f
}

// copies is the number of replicas of each stream.
func (f *fleet) copies() int { return fleetServers }

func (f *fleet) begin() {
	f.t.Helper()
	for _, r := range f.replicas {
		f.start(r)
	}
	f.healthy()
}

func (f *fleet) start(r *replica) {
	f.t.Helper()
	if !r.start() {
		f.t.Fatalf("a replica did not start:\n%s", r.process.Output())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at.nats = f.cluster.URL()
}

func (f *fleet) healthy() {
	f.t.Helper()
	for _, name := range fleetStreams {
		f.cluster.Healthy(name)
	}
}

func (f *fleet) pick(rng *rand.Rand) (address, bool) {
	first := rng.IntN(len(f.replicas))
	for i := range f.replicas {
		if at, ok := f.replicas[(first+i)%len(f.replicas)].now(); ok {
			return at, true
		}
	}
	return address{}, false
}

func (f *fleet) refused() []string { return nil }
func (f *fleet) damaged() []string { return nil }

func (f *fleet) deaths() (n int) {
	for _, r := range f.replicas {
		n += r.died()
	}
	return n
}

func (f *fleet) reports() (out []string) {
	for _, r := range f.replicas {
		out = append(out, r.reports()...)
	}
	return out
}

func (f *fleet) output() (out []string) {
	for _, r := range f.replicas {
		r.end()
		out = append(out, tail(r.logs)...)
	}
	return out
}

func (f *fleet) inject(step step, rng *rand.Rand) (ended bool) {
	f.t.Helper()
	r, gate := f.replicas[0], f.gates[0]
	if rng.IntN(2) == 1 {
		r, gate = f.replicas[1], f.gates[1]
	}
	server := rng.IntN(fleetServers)
	switch step.fault {
	case kill:
		r.kill()
		f.start(r)
	case terminate:
		r.terminate()
		f.start(r)
	case pause:
		r.signal(syscall.SIGSTOP)
		<-time.After(step.holds)
		r.signal(syscall.SIGCONT)
	case cutOff, swallow, lag:
		gate.Set(map[fault]queuetest.Network{cutOff: queuetest.Refusing, swallow: queuetest.Swallowing, lag: queuetest.Slow}[step.fault])
		<-time.After(step.holds)
		gate.Set(queuetest.Passing)
	case killNode:
		f.cluster.Kill(server)
		<-time.After(step.holds)
		f.cluster.Restart(server)
		f.healthy()
	case isolate:
		f.cluster.Isolate(server, []queuetest.Network{queuetest.Refusing, queuetest.Swallowing}[rng.IntN(2)])
		<-time.After(step.holds)
		f.cluster.Isolate(server, queuetest.Passing)
		f.healthy()
	case lagNode:
		f.cluster.Isolate(server, queuetest.Slow)
		<-time.After(step.holds)
		f.cluster.Isolate(server, queuetest.Passing)
		f.healthy()
	case lose:
		f.cluster.Lose(server)
		<-time.After(step.holds)
		f.cluster.Restart(server)
		f.healthy()
	case jump:
		r.skew(jumpTo(rng))
	case jumpNode:
		f.cluster.SetClock(server, jumpTo(rng))
	case freeze:
		f.cluster.Signal(server, syscall.SIGSTOP)
		<-time.After(step.holds)
		f.cluster.Signal(server, syscall.SIGCONT)
		f.healthy()
	}
	return false
}
