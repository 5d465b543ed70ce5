package encoder

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
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
func sentences(n, vocab int) ([]rewardmodel.Sequence, int) {
	rng := rand.New(rand.NewPCG(1, 2))
	batch, tokens := make([]rewardmodel.Sequence, n), 0
	for i := range batch {
		batch[i].IDs = randomTokens(rng, 8+rng.IntN(41), vocab)
		tokens += len(batch[i].IDs)
	}
	return batch, tokens
}

// randomTokens draws n tokens, none of them special.
func randomTokens(rng *rand.Rand, n, vocab int) []int32 {
	ids := make([]int32, n)
	for k := range ids {
		ids[k] = int32(1000 + rng.IntN(vocab-1000))
	}
	return ids
}

// BenchmarkMargins scores as many tokens as a batch of a busy service has, on as many threads as -cpu says. int8 is not
// refused where it moves the scores, which it does where the weights are random.
func BenchmarkMargins(b *testing.B) {
	dir := benchCheckpoint(b)
	r, err := NewRuntime(RuntimeOptions{Device: "cpu", PrecisionLimit: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
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

// BenchmarkBatches scores batches of 64 to 8,192 tokens, in sentences of 8 to 48, on as many threads as -cpu says, in the
// precision that ASSAY_BENCH_PRECISION names (bf16).
func BenchmarkBatches(b *testing.B) {
	dir := benchCheckpoint(b)
	r, err := NewRuntime(RuntimeOptions{Device: "cpu", PrecisionLimit: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.Close)
	precision := Precision(cmp.Or(os.Getenv("ASSAY_BENCH_PRECISION"), string(BF16)))
	m := loadModel(b, r, dir, precision)
	for _, tokens := range []int{64, 256, 1024, 8192} {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			all, _ := sentences(tokens/8, m.net.cfg.Vocab)
			batch, used := all[:0:0], 0
			for _, s := range all {
				if used+len(s.IDs) <= tokens {
					batch, used = append(batch, s), used+len(s.IDs)
				}
			}
			benchMargins(b, m, batch, used)
		})
	}
}

// BenchmarkAspects compares a model of one aspect with one of four.
func BenchmarkAspects(b *testing.B) {
	dir := benchCheckpoint(b)
	r := newRuntime(b)
	for _, aspects := range [][]string{{"a"}, {"a", "b", "c", "d"}} {
		widened := widen(b, r, dir, aspects, false)
		for _, p := range []Precision{FP32, BF16} {
			b.Run(fmt.Sprintf("%s/%d", p, len(aspects)), func(b *testing.B) {
				m := loadModel(b, r, widened, p)
				batch, tokens := sentences(40, m.net.cfg.Vocab)
				benchMargins(b, m, batch, tokens)
			})
		}
	}
}

// BenchmarkContext compares the ways to score the ten utterances of a response to a prompt of 200 tokens: without the
// prompt, with it encoded once, with it encoded for each utterance, and concatenated with each utterance.
func BenchmarkContext(b *testing.B) {
	dir := benchCheckpoint(b)
	r := newRuntime(b)
	widened := widen(b, r, dir, []string{"a"}, true)
	for _, p := range []Precision{FP32, BF16, Int8} {
		m := func() *Model {
			if p == Int8 && r.hasInt8() != nil {
				return nil
			}
			batch, _ := sentences(10, openCheckpoint(b, widened).Config.Vocab)
			if p == Int8 {
				return closed(b)(r.loadInt8With(openCheckpoint(b, widened), batch))
			}
			return loadModel(b, r, widened, p)
		}()
		if m == nil {
			continue
		}
		without, tokens := sentences(10, m.net.cfg.Vocab)
		prompt := randomTokens(rand.New(rand.NewPCG(3, 4)), 200, m.net.cfg.Vocab)
		shared, separate, pairs := slices.Clone(without), slices.Clone(without), slices.Clone(without)
		for i, s := range without {
			shared[i].Context, separate[i].Context = prompt, slices.Clone(prompt)
			pairs[i].IDs = slices.Concat(prompt, s.IDs)
		}
		for _, c := range []struct {
			name   string
			batch  []rewardmodel.Sequence
			tokens int
		}{{"none", without, tokens}, {"shared", shared, tokens + 200}, {"separate", separate, tokens + 2000}, {"pairs", pairs, tokens + 2000}} {
			b.Run(string(p)+"/"+c.name, func(b *testing.B) { benchMargins(b, m, c.batch, c.tokens) })
		}
	}
}

// benchMargins also reports the fastest forward pass, which others on the machine disturb the least.
func benchMargins(b *testing.B, m *Model, batch []rewardmodel.Sequence, tokens int) {
	fastest := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		if _, err := m.Margins(batch); err != nil {
			b.Fatal(err)
		}
		fastest = min(fastest, time.Since(start))
	}
	b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(fastest.Seconds()*1000, "min-ms")
}

// widen writes a checkpoint with the given aspects, which are not trained, and optionally with context.
func widen(b *testing.B, r *Runtime, dir string, aspects []string, context bool) string {
	b.Helper()
	opts := LearnerOptions{Context: context}
	for _, name := range aspects {
		opts.Aspects = append(opts.Aspects, AspectInit{Name: name})
	}
	l, err := r.NewLearner(openCheckpoint(b, dir), opts)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	tensors, err := l.Tensors(checkpoint.F32)
	if err != nil {
		b.Fatal(err)
	}
	out := filepath.Join(b.TempDir(), "model")
	if err := checkpoint.Write(out, l.Config(), checkpoint.Manifest{Version: "widened", Threshold: 0.5, Context: context}, tensors); err != nil {
		b.Fatal(err)
	}
	return out
}

// BenchmarkStep takes training steps on 32 utterances, without prompts and with eight of 100 tokens.
func BenchmarkStep(b *testing.B) {
	dir := benchCheckpoint(b)
	r := newRuntime(b)
	for _, p := range []Precision{FP32, BF16} {
		for _, prompts := range []int{0, 8} {
			b.Run(fmt.Sprintf("%s/%d", p, prompts), func(b *testing.B) {
				l, err := r.NewLearner(openCheckpoint(b, dir), LearnerOptions{Precision: p, Context: true})
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				batch, tokens := sentences(32, l.net.cfg.Vocab)
				rng := rand.New(rand.NewPCG(5, 6))
				for i := range prompts {
					prompt := randomTokens(rng, 100, l.net.cfg.Vocab)
					for k := i; k < len(batch); k += prompts {
						batch[k].Context = prompt
					}
				}
				tokens += 100 * prompts
				for b.Loop() {
					if _, err := l.Step(batch, 1e-5, alternatingLoss); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
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
