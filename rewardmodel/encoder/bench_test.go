package encoder

import (
	"math/rand/v2"
	"os"
	"testing"
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
