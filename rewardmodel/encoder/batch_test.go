package encoder

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sugarme/gotch"
	"golang.org/x/sync/errgroup"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
)

// shippedModel is the checkpoint that the repository ships.
const shippedModel = "../../models/default"

var (
	responses     = flag.Int("responses", 16, "random responses that the test of bit-identical scores compares; with -short at most 5")
	firstResponse = flag.Int("first-response", 0, "the first of these, a multiple of 800: several runs can share a large number")
)

// TestScoreDoesNotDependOnTheBatch scores random responses in several ways of batching their utterances and with one and two
// threads, each with the model loaded again: not one bit of a margin may differ. Run it with -responses 1000000 after changes
// to kernels or of libtorch.
func TestScoreDoesNotDependOnTheBatch(t *testing.T) {
	dirs := map[string]string{"small": randomCheckpoint(t, rand.New(rand.NewPCG(5, 6)), 60, 3, 100, checkpoint.GELUTanh, "a", "b")}
	rng := rand.New(rand.NewPCG(7, 8))
	dirs["ModernBERT"] = randomModern(t, rng, modernShape{60, 3, 100, 4, 17, checkpoint.GELU, true})
	dirs["ModernBERT, first token"] = randomModern(t, rng, modernShape{64, 2, 96, 3, 16, checkpoint.GELUTanh, false})
	number := *responses
	if testing.Short() {
		number = min(number, 5)
	} else {
		dirs["wide"] = randomCheckpoint(t, rand.New(rand.NewPCG(3, 4)), 768, 12, 3072, checkpoint.GELU, "a")
	}
	if _, err := os.Stat(shippedModel); err == nil {
		dirs["shipped"] = shippedModel
	}
	for name, dir := range dirs {
		for _, precision := range []Precision{FP32, BF16, Int8} {
			if modern := strings.HasPrefix(name, "ModernBERT"); modern && (precision == Int8 || precision == BF16 && hasAMX()) {
				continue // see TestBF16WithAMX
			}
			t.Run(name+"/"+string(precision), func(t *testing.T) { compareBatchings(t, dir, precision, number) })
		}
	}
}

// TestBF16WithAMX checks that no score in bf16 claims to be comparable bit by bit where oneDNN multiplies with AMX, and that
// they are without it.
func TestBF16WithAMX(t *testing.T) {
	if !hasAMX() {
		t.Skip("the processor has no AMX, or ONEDNN_MAX_CPU_ISA forbids it")
	}
	r := newRuntime(t)
	m := loadModel(t, r, randomModern(t, rand.New(rand.NewPCG(5, 6)), modernShape{60, 3, 100, 4, 17, checkpoint.GELU, true}), BF16)
	if id, err := m.Numerics(); err != nil || id != "" {
		t.Fatalf("numerics %q (%v)", id, err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestScoreDoesNotDependOnTheBatch$/^ModernBERT$/^bf16$", "-test.short", "-test.v", "-test.count=1")
	child.Env = append(os.Environ(), "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "/bf16 (") {
		t.Fatalf("%v: %s", err, out)
	}
}

// compareBatchings draws the responses in parts, so that any number of them needs little memory.
func compareBatchings(t *testing.T, dir string, precision Precision, number int) {
	const part = 800
	var models []*Model
	for _, threads := range []int{1, 2} {
		r, err := NewRuntime(RuntimeOptions{Threads: threads, Device: "cpu", PrecisionLimit: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		m := func() *Model {
			if precision != Int8 {
				return loadModel(t, r, dir, precision)
			}
			return loadInt8(t, r, dir, sequences([]int32{1, 2, 3}))
		}()
		if m.fused == nil {
			t.Skip(precision, " is not fused here")
		}
		models = append(models, m)
	}
	checkNumerics(t, precision, models)
	var compared, utterances, tokens, different int
	for done := 0; done < number; done += part {
		rng := rand.New(rand.NewPCG(8, uint64(*firstResponse+done)))
		all, each := drawResponses(rng, min(part, number-done), models[0])
		utterances += len(all)
		for _, s := range all {
			tokens += len(s.IDs)
		}
		var want []float32
		for _, m := range models {
			for name, batches := range batchings(rng, all, each) {
				got := scoreBatches(t, m, all, batches)
				if want == nil {
					want = got
				}
				differ := 0
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						differ++
					}
				}
				if differ > 0 {
					t.Errorf("%d threads, %s: %d of %d margins differ", m.runtime.threads, name, differ, len(want))
				}
				different, compared = different+differ, compared+len(want)
			}
		}
		if now := min(done+part, number); now == number || now%100_000 == 0 {
			t.Logf("%d responses of %d utterances and %d tokens: %d of %d margins differ", now, utterances, tokens, different, compared)
		}
	}
}

// drawResponses draws the utterances of responses, and which of them are those of each response. Their numbers and lengths are
// distributed about as in replies of assistants: 2.4 utterances on average, with a median of 17 tokens. A few are as long as
// the model takes. A response has one of a few contexts, where the model has any.
func drawResponses(rng *rand.Rand, n int, m *Model) (all []rewardmodel.Sequence, each [][]int) {
	draw := func(length int) []int32 {
		ids := make([]int32, min(length, m.MaxLength()))
		for i := range ids {
			ids[i] = int32(rng.IntN(m.net.cfg.Vocab))
		}
		return ids
	}
	contexts := make([][]int32, 5)
	for i := range contexts {
		if m.net.contexts && i > 0 {
			contexts[i] = draw(1 + rng.IntN(64))
		}
	}
	for len(each) < n {
		context := contexts[rng.IntN(len(contexts))]
		var its []int
		for more := true; more; more = rng.Float64() < 0.59 {
			length := 1 + int(16*math.Exp(0.6*rng.NormFloat64()))
			if rng.IntN(2000) == 0 {
				length = m.MaxLength()
			}
			its = append(its, len(all))
			all = append(all, rewardmodel.Sequence{IDs: draw(min(length, m.MaxLength()-len(context))), Context: context})
		}
		each = append(each, its)
	}
	return all, each
}

// checkNumerics checks that all models have the same id.
func checkNumerics(t *testing.T, precision Precision, models []*Model) {
	t.Helper()
	var first string
	for i, m := range models {
		id, err := m.Numerics()
		if err != nil || !strings.Contains(id, "/"+string(precision)+"/") || !strings.HasPrefix(id, numericsPrefix("")) {
			t.Fatalf("numerics %q (%v)", id, err)
		}
		if i == 0 {
			first = id
		} else if id != first {
			t.Errorf("numerics %s on %d threads, else %s", id, m.runtime.threads, first)
		}
	}
}

// batchings are ways to divide the sequences of each response into batches of indices.
func batchings(rng *rand.Rand, all []rewardmodel.Sequence, each [][]int) map[string][][]int {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	byLength := slices.SortedStableFunc(slices.Values(order), func(a, b int) int { return len(all[a].IDs) - len(all[b].IDs) })
	// As after a cache that knew every third one.
	var known, unknown []int
	for i := range order {
		if i%3 == 0 {
			known = append(known, i)
		} else {
			unknown = append(unknown, i)
		}
	}
	return map[string][][]int{
		"by response":      each,
		"sorted by length": slices.Collect(slices.Chunk(byLength, 32)),
		"large batches":    slices.Collect(slices.Chunk(order, 80)),
		"random batches":   randomBatches(rng, rng.Perm(len(all))),
		"behind a cache":   append(randomBatches(rng, known), randomBatches(rng, unknown)...),
	}
}

func randomBatches(rng *rand.Rand, order []int) (batches [][]int) {
	for len(order) > 0 {
		n := min(len(order), 1+rng.IntN(20))
		batches, order = append(batches, order[:n]), order[n:]
	}
	return batches
}

// scoreBatches returns the margins of all sequences, in their order.
func scoreBatches(t *testing.T, m *Model, all []rewardmodel.Sequence, batches [][]int) []float32 {
	t.Helper()
	aspects := len(m.Aspects())
	out := make([]float32, aspects*len(all))
	for _, batch := range batches {
		var chosen []rewardmodel.Sequence
		for _, i := range batch {
			chosen = append(chosen, all[i])
		}
		for k, v := range margins(t, m, chosen) {
			out[aspects*batch[k/aspects]+k%aspects] = v
		}
	}
	return out
}

// TestServedScoresAreBitIdentical scores responses one after the other, and at the same time with and without a cache.
func TestServedScoresAreBitIdentical(t *testing.T) {
	if _, err := os.Stat(shippedModel); err != nil {
		t.Skip("no shipped model: run make model")
	}
	tok, err := tokenizer.Load(shippedModel)
	if err != nil {
		t.Fatal(err)
	}
	m := loadModel(t, newRuntime(t), shippedModel, Auto)
	if m.fused == nil {
		t.Skip("not fused here")
	}
	var responses []string
	for i := range int8CheckTexts[:12] {
		responses = append(responses, strings.Join(int8CheckTexts[i:i+4], " "))
	}
	score := func(cacheBytes int64, atOnce int) map[string]uint64 {
		scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v", CacheBytes: cacheBytes}, m, tok, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer scorer.Close()
		results := make([]rewardmodel.ScoreResponse, len(responses))
		var group errgroup.Group
		group.SetLimit(atOnce)
		for i, text := range responses {
			group.Go(func() (err error) {
				results[i], err = scorer.Score(context.Background(), rewardmodel.Request{Responses: []rewardmodel.Item{{Response: &text}}})
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		bits := map[string]uint64{}
		for i, r := range results {
			bits[fmt.Sprint(i)] = math.Float64bits(r.Results[0].Reward)
		}
		return bits
	}
	want := score(0, 1)
	for _, cacheBytes := range []int64{0, 1 << 20} {
		for range 3 {
			for i, bits := range score(cacheBytes, len(responses)) {
				if bits != want[i] {
					t.Errorf("response %s with %d bytes of cache: %v, alone %v", i, cacheBytes, math.Float64frombits(bits), math.Float64frombits(want[i]))
				}
			}
		}
	}
}

// TestProductsDependOnTheirRowOnly multiplies the same row in batches of several sizes. It is the property of oneDNN on
// which the scores rely, with more threads than there are processors too.
func TestProductsDependOnTheirRowOnly(t *testing.T) {
	kinds := map[string]gotch.DType{"fp32": gotch.Float}
	if fusable(&network{kind: gotch.BFloat16}) {
		kinds["bf16"] = gotch.BFloat16
	}
	for name, kind := range kinds {
		for _, shape := range [][2]int64{{384, 384}, {1536, 384}, {768, 768}, {3072, 768}} {
			seen := map[string][]string{}
			for _, threads := range []int{1, 2, 8} {
				multiply(t, threads, kind, shape[0], shape[1], func(rows int, row string) {
					seen[row] = append(seen[row], fmt.Sprintf("%d rows on %d threads", rows, threads))
				})
			}
			if len(seen) > 1 {
				t.Errorf("%s, %d to %d: %d results of one row", name, shape[0], shape[1], len(seen))
				for _, where := range seen {
					t.Log(where)
				}
			}
		}
	}
}

// multiply calls see with the bits of each row of a product whose rows are all equal.
func multiply(t *testing.T, threads int, kind gotch.DType, in, out int64, see func(rows int, row string)) {
	r, err := NewRuntime(RuntimeOptions{Threads: threads, Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	normal := func(n int64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	err = r.do(func() error {
		defer withoutGradients()()
		var scope tensorScope
		defer scope.drop()
		weight := scope.prepackFloats(scope.cast(scope.float32s(normal(in*out), gotch.CPU, out, in), kind))
		bias := scope.cast(scope.float32s(normal(out), gotch.CPU, out), kind)
		row := normal(in)
		for _, rows := range []int{minRows, 3, 4, 7, 8, 24, 64, 160} {
			x := scope.cast(scope.float32s(slices.Repeat(row, rows), gotch.CPU, int64(rows), in), kind)
			y := scope.values(scope.packedLinear(x, weight, bias, checkpoint.GELU), rows*int(out), gotch.CPU)
			if scope.err != nil {
				return scope.err
			}
			for at := range slices.Chunk(y, int(out)) {
				see(rows, string(asBytes(at)))
			}
		}
		return scope.err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func violation(margin float32) float64 { return 1 / (1 + math.Exp(-float64(margin))) }
