package encoder

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// benchCheckpoint is the checkpoint folder named by ASSAY_BENCH_MODEL.
func benchCheckpoint(b *testing.B) string {
	dir := os.Getenv("ASSAY_BENCH_MODEL")
	if dir == "" {
		b.Skip("set ASSAY_BENCH_MODEL to a checkpoint folder")
	}
	return dir
}

// sentences draws n sequences of 8 to 48 tokens.
func sentences(n, vocab int) ([][]int32, int) {
	rng := rand.New(rand.NewPCG(1, 2))
	batch, tokens := make([][]int32, n), 0
	for i := range batch {
		batch[i] = make([]int32, 8+rng.IntN(41))
		for k := range batch[i] {
			batch[i][k] = int32(1000 + rng.IntN(vocab-1000))
		}
		tokens += len(batch[i])
	}
	return batch, tokens
}

func BenchmarkMargins(b *testing.B) {
	dir := benchCheckpoint(b)
	r := newRuntime(b)
	for _, p := range []Precision{FP32, BF16} {
		b.Run(string(p), func(b *testing.B) {
			m := loadModel(b, r, dir, p)
			batch, tokens := sentences(128, m.net.cfg.Vocab)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Margins(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

func BenchmarkStep(b *testing.B) {
	dir := benchCheckpoint(b)
	r := newRuntime(b)
	for _, p := range []Precision{FP32, BF16} {
		b.Run(string(p), func(b *testing.B) {
			l, err := r.NewLearner(openCheckpoint(b, dir), LearnerOptions{Precision: p})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			batch, tokens := sentences(32, l.net.cfg.Vocab)
			for b.Loop() {
				if _, err := l.Step(batch, 1e-5, alternatingLoss); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// BenchmarkStall tells how long a small batch takes while another model is loaded: the longest time, beside the median
// and the longest without a load. Each is the least of all rounds, which others on the machine disturb the least.
func BenchmarkStall(b *testing.B) {
	dir := benchCheckpoint(b)
	r := newRuntime(b)
	for _, p := range []Precision{FP32, BF16} {
		b.Run(string(p), func(b *testing.B) {
			serving := loadModel(b, r, dir, p)
			batch, _ := sentences(2, serving.net.cfg.Vocab)
			score := func(until func() bool) (took []time.Duration) {
				for len(took) < 20 || !until() {
					start := time.Now()
					if _, err := serving.Margins(batch); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				return took
			}
			const long = time.Duration(math.MaxInt64)
			longest, usual, alone, loading := long, long, long, long
			for b.Loop() {
				var loaded atomic.Bool
				done := make(chan *Model, 1)
				start := time.Now()
				go func() {
					m, err := r.Load(openCheckpoint(b, dir), p)
					if err != nil {
						b.Error(err)
					}
					loading = min(loading, time.Since(start))
					loaded.Store(true)
					done <- m
				}()
				during := score(loaded.Load)
				if m := <-done; m != nil {
					m.Close()
				}
				rounds := 0
				idle := score(func() bool { rounds++; return rounds >= len(during) })
				longest, usual, alone = min(longest, during[len(during)-1]), min(usual, during[len(during)/2]), min(alone, idle[len(idle)-1])
			}
			b.ReportMetric(longest.Seconds()*1000, "longest-ms")
			b.ReportMetric(usual.Seconds()*1000, "median-ms")
			b.ReportMetric(alone.Seconds()*1000, "longest-without-ms")
			b.ReportMetric(loading.Seconds()*1000, "load-ms")
		})
	}
}
