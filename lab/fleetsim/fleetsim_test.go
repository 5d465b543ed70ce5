package fleetsim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/lab/load"
)

// single is a fleet whose replicas hold one response at a time and whose cost is
// that of its tokens.
func single(replicas int) Fleet {
	f := Default()
	f.Replicas, f.Replica.MaxInFlight, f.Replica.BatchTokens = replicas, 1, 1
	f.Replica.Token = 100 * time.Nanosecond
	return f
}

// meanWait is the mean wait of all but the first tenth, over the mean service time of 1 ms.
func meanWait(t *testing.T, f Fleet, work []Response) float64 {
	t.Helper()
	result, err := Run(f, work)
	require.NoError(t, err)
	sum, n := 0.0, 0
	for i, latency := range result.Latencies {
		if i >= len(work)/10 {
			sum += (latency - time.Duration(work[i].Sequences[0])*f.Replica.Token).Seconds()
			n++
		}
	}
	return sum / float64(n) / 1e-3
}

// poisson is a workload of one sequence each, of 10,000 tokens on average, for
// c servers of that load.
func poisson(seed uint64, n, c int, rho float64, tokens func(*rand.Rand) float64) []Response {
	rng := rand.New(rand.NewPCG(seed, 0))
	work := make([]Response, n)
	for i, at := range load.Poisson(rng, n, rho*float64(c)*1000) {
		work[i] = Response{at, []int{max(1, int(10_000*tokens(rng)))}}
	}
	return work
}

func exponential(rng *rand.Rand) float64 { return rng.ExpFloat64() }
func constant(*rand.Rand) float64        { return 1 }

// erlangC is the probability of having to wait in an M/M/c queue.
func erlangC(c int, rho float64) float64 {
	offered, sum, term := rho*float64(c), 0.0, 1.0
	for k := range c {
		sum += term
		term *= offered / float64(k+1)
	}
	return term / (1 - rho) / (sum + term/(1-rho))
}

// The mean wait of M/M/c is ErlangC / (c (1-load)) service times (Erlang 1917).
func TestIsAnMMcQueue(t *testing.T) {
	for _, c := range []int{1, 2, 10} {
		for _, rho := range []float64{0.5, 0.8} {
			want := erlangC(c, rho) / (float64(c) * (1 - rho))
			got := meanWait(t, single(c), poisson(uint64(c), 100_000, c, rho, exponential))
			require.InDelta(t, want, got, 0.08*want+0.001, "%d servers at %v", c, rho)
		}
	}
}

// The mean wait of M/D/1 is load / (2 (1-load)) service times (Pollaczek and
// Khinchine).
func TestIsAnMD1Queue(t *testing.T) {
	for _, load := range []float64{0.3, 0.6, 0.8} {
		want := load / (2 * (1 - load))
		got := meanWait(t, single(1), poisson(7, 100_000, 1, load, constant))
		require.InDelta(t, want, got, 0.05*want, "at %v", load)
	}
}

// With a limit of k pending acknowledgements, more than k replicas perform like k.
func TestAckPendingBoundsTheFleet(t *testing.T) {
	f := single(10)
	f.MaxAckPending = 2
	want := erlangC(2, 0.8) / (2 * 0.2)
	work := poisson(3, 100_000, 2, 0.8, exponential)
	require.InDelta(t, want, meanWait(t, f, work), 0.07*want)
	result, err := Run(f, work)
	require.NoError(t, err)
	require.InDelta(t, 0.8*erlangC(2, 0.8), result.AckLimited, 0.02, "the share of the time in which a response waits")
	require.InDelta(t, 0.16, result.Busy, 0.01)
}

// The broker is a queue: a burst leaves it one after another.
func TestBrokerBounds(t *testing.T) {
	f := Default()
	f.Replicas, f.Broker = 4, Broker{Publish: 10 * time.Microsecond, Deliver: 20 * time.Microsecond, Settle: 30 * time.Microsecond}
	work := make([]Response, 10_000)
	for i := range work {
		work[i].Sequences = []int{5}
	}
	result, err := Run(f, work)
	require.NoError(t, err)
	require.InEpsilon(t, 1/60e-6, result.Throughput(), 0.001)
	require.InDelta(t, 1, result.BrokerBusy, 0.001)
	require.Zero(t, result.Busy)
}

// rollouts is a workload like that of an RLHF trainer.
func rollouts(seed uint64, steps, size int, every time.Duration) []Response {
	rng := rand.New(rand.NewPCG(seed, 0))
	work := make([]Response, steps*size)
	for i, at := range load.Bursts(len(work), size, every) {
		work[i] = Response{at, Lognormal{400, 0.6}.Response(rng, Lognormal{20, 0.5}, 2)}
	}
	return work
}

// The time of a burst that keeps all models busy depends only on its tokens for
// any number of replicas, and batches stay within their budget.
func TestBurstTakesItsTokens(t *testing.T) {
	work := rollouts(1, 1, 4096, 0)
	for _, replicas := range []int{1, 4, 16} {
		f := Default()
		f.Replicas, f.Replica.Token, f.Replica.Batch = replicas, 100*time.Microsecond, time.Millisecond
		result, err := Run(f, work)
		require.NoError(t, err)
		ideal := (float64(result.Tokens)*100e-6 + float64(result.Batches)*1e-3) / float64(replicas)
		require.InEpsilon(t, ideal, result.Makespan.Seconds(), 0.1, "%d replicas", replicas)
		require.Greater(t, result.Busy, 0.9)
		require.LessOrEqual(t, result.BatchTokens, 1024.0)
		require.Greater(t, result.BatchTokens, 500.0)
	}
}

// Each response gets its reward although replicas are killed, their messages are
// redelivered, and the same seed gives the same result.
func TestKills(t *testing.T) {
	f := Default()
	f.Replicas, f.Replica.Token, f.Seed = 3, 100*time.Microsecond, 5
	f.Broker = Broker{Publish: 20 * time.Microsecond, Deliver: 20 * time.Microsecond, Settle: 20 * time.Microsecond, Hop: 200 * time.Microsecond}
	work := rollouts(2, 2, 1000, 40*time.Second)
	calm, err := Run(f, work)
	require.NoError(t, err)
	require.Zero(t, calm.Redelivered)
	for i := range 6 {
		f.Kills = append(f.Kills, Kill{Replica: i % 3, At: time.Duration(i) * 1500 * time.Millisecond, Down: 5 * time.Second})
	}
	var results [2]Result
	for i := range results {
		results[i], err = Run(f, work)
		require.NoError(t, err)
	}
	require.Equal(t, results[0], results[1])
	require.Greater(t, results[0].Redelivered, 100)
	require.Greater(t, results[0].Percentile(99), calm.Percentile(99))
	for _, latency := range results[0].Latencies {
		require.Positive(t, latency)
	}
}

func TestLognormal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	sum, squares, n := 0.0, 0.0, 200_000
	for range n {
		x := float64(Lognormal{800, 0.5}.Sample(rng))
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / float64(n)
	require.InEpsilon(t, 800, mean, 0.01)
	require.InEpsilon(t, 0.5, math.Sqrt(squares/float64(n)-mean*mean)/mean, 0.02)
	total := 0
	for _, s := range (Lognormal{100, 0}).Response(rng, Lognormal{20, 0.5}, 2) {
		total += s - 2
	}
	require.Equal(t, 100, total)
}

func TestRunRefuses(t *testing.T) {
	one := []Response{{0, []int{1}}}
	for name, test := range map[string]struct {
		edit func(*Fleet)
		work []Response
	}{
		"replicas":  {func(f *Fleet) { f.Replicas = 0 }, one},
		"in flight": {func(f *Fleet) { f.Replica.MaxInFlight = 0 }, one},
		"cost":      {func(f *Fleet) { f.Replica.Token = -1 }, one},
		"kill":      {func(f *Fleet) { f.Kills = []Kill{{Replica: 1}} }, one},
		"nothing":   {func(*Fleet) {}, nil},
		"empty":     {func(*Fleet) {}, []Response{{}}},
		"no tokens": {func(*Fleet) {}, []Response{{0, []int{0}}}},
	} {
		f := Default()
		test.edit(&f)
		_, err := Run(f, test.work)
		require.ErrorIs(t, err, ErrSetting, name)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, replicas := range []int{4, 500} {
		b.Run(fmt.Sprint(replicas), func(b *testing.B) {
			work := rollouts(1, 1, 8192, 0)
			f := Default()
			f.Replicas, f.Replica.Token = replicas, 100*time.Microsecond
			for b.Loop() {
				if _, err := Run(f, work); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
