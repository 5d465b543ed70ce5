package encoder

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// benchCheckpoint is the checkpoint directory named by ASSAY_BENCH_MODEL.
func benchCheckpoint(b *testing.B) string {
	dir := os.Getenv("ASSAY_BENCH_MODEL")
	if dir == "" {
		b.Skip("set ASSAY_BENCH_MODEL to a checkpoint directory")
	}
	return dir
}

// sentences samples n sequences of 8 to 48 tokens.
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
	for _, p := range []Precision{FP32, BF16, Int8} {
		b.Run(string(p), func(b *testing.B) {
			if p == Int8 {
				needInt8(b, r)
			}
			m := loadModel(b, r, dir, p)
			batch, tokens := sentences(40, m.net.cfg.Vocab)
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

// BenchmarkStall measures how long loading a model blocks the libtorch thread: the maximum wait for it, and the maximum
// latency of a small batch with and without a load. Each is the minimum over all rounds, which other processes disturb
// the least.
func BenchmarkStall(b *testing.B) {
	dir := benchCheckpoint(b)
	r := newRuntime(b)
	for _, p := range []Precision{FP32, BF16} {
		b.Run(string(p), func(b *testing.B) {
			serving := loadModel(b, r, dir, p)
			batch, _ := sentences(2, serving.net.cfg.Vocab)
			nothing := func() error { return r.do(func() error { return nil }) }
			score := func() error {
				_, err := serving.Margins(batch)
				return err
			}
			const long = time.Duration(math.MaxInt64)
			wait, during, alone, loading := long, long, long, long
			for b.Loop() {
				longest, took := whileLoading(b, r, dir, p, nothing)
				wait, loading = min(wait, longest), min(loading, took)
				longest, _ = whileLoading(b, r, dir, p, score)
				during = min(during, longest)
				alone = min(alone, longestOf(b, 20, score))
			}
			b.ReportMetric(wait.Seconds()*1000, "wait-ms")
			b.ReportMetric(during.Seconds()*1000, "batch-ms")
			b.ReportMetric(alone.Seconds()*1000, "batch-alone-ms")
			b.ReportMetric(loading.Seconds()*1000, "load-ms")
		})
	}
}

// whileLoading calls f repeatedly while a model is loaded, and returns the longest call and the duration of the load.
func whileLoading(b *testing.B, r *Runtime, dir string, p Precision, f func() error) (longest, load time.Duration) {
	ckpt := openCheckpoint(b, dir)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		start := time.Now()
		m, err := r.Load(ckpt, p)
		load = time.Since(start)
		if err != nil {
			b.Error(err)
			return
		}
		m.Close()
	}()
	for {
		select {
		case <-loaded:
			return longest, load
		default:
			longest = max(longest, longestOf(b, 1, f))
		}
	}
}

func longestOf(b *testing.B, n int, f func() error) (longest time.Duration) {
	for range n {
		start := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		longest = max(longest, time.Since(start))
	}
	return longest
}
