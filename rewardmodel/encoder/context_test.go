package encoder

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

// withContexts draws sequences of up to longest tokens, most of them with one of a few shared contexts.
func withContexts(rng *rand.Rand, n, longest, vocab int) []rewardmodel.Sequence {
	draw := func() []int32 {
		ids := make([]int32, 1+rng.IntN(longest))
		for i := range ids {
			ids[i] = int32(rng.IntN(vocab))
		}
		return ids
	}
	contexts := [][]int32{nil, draw(), draw(), draw()[:1], draw()}
	batch := make([]rewardmodel.Sequence, n)
	for i := range batch {
		batch[i] = rewardmodel.Sequence{IDs: draw(), Context: contexts[rng.IntN(len(contexts))]}
	}
	return batch
}

func margins(t *testing.T, m *Model, batch []rewardmodel.Sequence) []float32 {
	t.Helper()
	got, err := m.Margins(batch)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(batch) * len(m.Aspects()); len(got) != want {
		t.Fatalf("%d margins, want %d", len(got), want)
	}
	return got
}

func closeTo(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= tolerance) {
			t.Errorf("%s: margin %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

// TestFusedContexts validates the fused layers on contexts and several aspects against those that are trained.
func TestFusedContexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		hidden, heads, feed int
	}{{16, 2, 24}, {60, 3, 100}, {128, 2, 512}} {
		dir := randomCheckpoint(t, rng, c.hidden, c.heads, c.feed, checkpoint.GELU, "a", "b", "c")
		for _, threads := range []int{1, 3} {
			r, err := NewRuntime(RuntimeOptions{Threads: threads, Device: "cpu", PrecisionLimit: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.Close)
			batch := withContexts(rng, 40, 198, 96)
			for p, tolerance := range map[Precision]float64{FP32: 5e-5, BF16: 0.2} {
				plain, fused := loadPlain(t, r, dir, p), loadModel(t, r, dir, p)
				if fused.fused == nil {
					t.Logf("%s is not fused here", p)
					continue
				}
				closeTo(t, string(p), margins(t, fused, batch), margins(t, plain, batch), tolerance)
			}
			if r.hasInt8() == nil {
				closeTo(t, "int8", margins(t, loadInt8(t, r, dir, batch), batch), margins(t, loadPlain(t, r, dir, FP32), batch), 1)
			}
		}
	}
}

// TestScoreDoesNotDependOnSharedContexts scores sequences alone, in a batch, and in a batch whose equal contexts are
// different slices. The scores of those without a context are the same as without the others.
func TestScoreDoesNotDependOnSharedContexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	r := newRuntime(t)
	dir := randomCheckpoint(t, rng, 64, 4, 96, checkpoint.GELU, "a", "b")
	batch := withContexts(rng, 30, 100, 96)
	apart := slices.Clone(batch)
	for i := range apart {
		apart[i].Context = slices.Clone(batch[i].Context)
	}
	for name, m := range map[string]*Model{"fused": loadModel(t, r, dir, FP32), "plain": loadPlain(t, r, dir, FP32)} {
		shared := margins(t, m, batch)
		closeTo(t, name+", separate contexts", margins(t, m, apart), shared, 2e-5)
		for i := range batch {
			closeTo(t, name+", alone", margins(t, m, batch[i:i+1]), shared[2*i:2*i+2], 2e-5)
		}
		p, err := m.net.pack(batch)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.contexts.first); n != 4 {
			t.Errorf("%s: %d contexts are computed, want 4", name, n)
		}
	}
}

// TestContextGroups checks that a group copies a bounded number of keys, and that the groups have each sequence in order.
func TestContextGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	r := newRuntime(t)
	dir := randomCheckpoint(t, rng, 16, 2, 24, checkpoint.GELU, "a", "b")
	context := make([]int32, 150)
	for i := range context {
		context[i] = int32(rng.IntN(96))
	}
	batch := withContexts(rng, 600, 4, 96)
	for i := range batch {
		if i%5 > 0 {
			batch[i].Context = context
		}
	}
	m := loadPlain(t, r, dir, FP32)
	p, err := m.net.pack(batch)
	if err != nil {
		t.Fatal(err)
	}
	var tokens int64
	for _, gr := range p.groups {
		if gr.count*gr.keys > maxKeys || gr.keys > 0 && int64(len(gr.keyRows)) != gr.count*gr.keys {
			t.Errorf("%d sequences with %d keys each", gr.count, gr.keys)
		}
		tokens += gr.tokens
	}
	if tokens != int64(len(p.ids)) || len(p.groups) < 4 {
		t.Errorf("%d groups have %d tokens of %d", len(p.groups), tokens, len(p.ids))
	}
	closeTo(t, "fused", margins(t, loadModel(t, r, dir, FP32), batch), margins(t, m, batch), 5e-5)
}

// TestRuns checks the runs of attention: each sequence and context is in one, and those of a run share a context.
func TestRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	m := loadPlain(t, newRuntime(t), "../checkpoint/testdata/bert-aspects", FP32)
	p, err := m.net.pack(withContexts(rng, 100, 22, 96))
	if err != nil {
		t.Fatal(err)
	}
	run, member := p.runs()
	seen := slices.Clone(member)
	slices.Sort(seen)
	for i, s := range seen {
		if int(s) != i {
			t.Fatalf("members %v", seen)
		}
	}
	sequences := len(p.lengths)
	if len(seen) != sequences+4 || run[0] != 0 || int(run[len(run)-1]) != len(member) {
		t.Fatalf("%d members in runs %v", len(seen), run)
	}
	for r := range len(run) - 1 {
		part := member[run[r]:run[r+1]]
		if len(part) == 0 || len(part) > maxRun || r >= len(run)-5 && int(part[0]) != sequences+r-(len(run)-5) {
			t.Fatalf("run %d is %v", r, part)
		}
		for k, s := range part[1:] {
			if p.contexts.of[s] < 0 || p.contexts.of[s] != p.contexts.of[part[0]] || p.lengths[s] < p.lengths[part[k]] {
				t.Errorf("run %d is %v", r, part)
			}
		}
	}
}

// TestContextChangesTheScore guards against a context that is read but has no effect.
func TestContextChangesTheScore(t *testing.T) {
	r := newRuntime(t)
	m := loadModel(t, r, "../checkpoint/testdata/roberta-aspects", FP32)
	ids := []int32{0, 5, 6, 2}
	got := margins(t, m, []rewardmodel.Sequence{{IDs: ids}, {IDs: ids, Context: []int32{0, 9, 2}}, {IDs: ids, Context: []int32{0, 10, 2}}})
	for a := range 2 {
		if got[a] == got[2+a] || got[a] == got[4+a] || got[2+a] == got[4+a] {
			t.Errorf("aspect %d: margins %v, %v, %v", a, got[a], got[2+a], got[4+a])
		}
	}
}

func TestContextRefused(t *testing.T) {
	r := newRuntime(t)
	withContext := []rewardmodel.Sequence{{IDs: []int32{0, 5, 2}, Context: []int32{0, 6, 2}}}
	refuses := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	_, err := loadModel(t, r, "../checkpoint/testdata/roberta-two", FP32).Margins(withContext)
	refuses("a model without context", err, "sequence 0 has a context, but the model was not trained with context")

	m := loadModel(t, r, "../checkpoint/testdata/roberta-aspects", FP32)
	_, err = m.Margins([]rewardmodel.Sequence{{IDs: []int32{0, 2}}, {IDs: []int32{0, 2}, Context: make([]int32, m.MaxLength()+1)}})
	refuses("a long context", err, "sequence 1 has a context of 23 tokens; the model accepts 1 to 22")
	_, err = m.Margins([]rewardmodel.Sequence{{IDs: []int32{0, 2}, Context: []int32{1 << 20}}})
	refuses("an unknown token", err, "outside the vocabulary")

	_, err = r.NewLearner(openCheckpoint(t, "../checkpoint/testdata/deberta-v3"), LearnerOptions{Context: true})
	refuses("DeBERTa", err, "deberta-v2 does not support context")
	ckpt := openCheckpoint(t, "../checkpoint/testdata/roberta-two")
	ckpt.Manifest.Context = true
	_, err = r.Load(ckpt, FP32)
	refuses("one token type", err, "type_vocab_size is 1")
}

// gradients returns the gradient of the sum of weight * logit with respect to each parameter. Those of the word
// embeddings have only the rows of the batch.
func gradients(t *testing.T, l *Learner, batch []rewardmodel.Sequence, weight [][]float32) [][]float32 {
	t.Helper()
	chunks, err := l.chunks(batch)
	if err != nil || len(chunks) != 1 {
		t.Fatalf("%d chunks, %v", len(chunks), err)
	}
	var out [][]float32
	err = l.runtime.do(func() error {
		var scope tensorScope
		defer scope.drop()
		s := step{Learner: l, of: outputLogits, rows: make([][]float32, len(batch))}
		s.word = s.wordRows.take(&scope, chunks, s.net)
		s.backward(&scope, chunks[0], s.run(&scope, chunks[0], 0), weight)
		for _, p := range l.params {
			leaf := p.tensor
			if leaf == l.net.word {
				leaf = s.word
			}
			grad := scope.do("grad", func() (*ts.Tensor, error) { return leaf.Grad(false) })
			out = append(out, scope.values(grad, elements(leaf), l.net.device))
			scope.run("zero grad", grad.Zero_)
		}
		return scope.err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// contextLearner trains a checkpoint with two aspects and context, without dropout.
func contextLearner(t *testing.T, opts LearnerOptions) *Learner {
	t.Helper()
	opts.Precision, opts.Dropout, opts.Context, opts.Embeddings = FP32, new(float64), true, TouchedRows
	return newLearner(t, newRuntime(t), "../checkpoint/testdata/bert-aspects", opts)
}

// TestContextGradient validates the gradient through shared contexts against that through separate ones, and against
// finite differences.
func TestContextGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	l := contextLearner(t, LearnerOptions{})
	batch := withContexts(rng, 12, 22, 96)
	weight := make([][]float32, len(batch))
	for i := range weight {
		weight[i] = []float32{rng.Float32(), rng.Float32() - 1, rng.Float32(), -rng.Float32()}
	}
	shared := gradients(t, l, batch, weight)
	apart := slices.Clone(batch)
	for i := range apart {
		apart[i].Context = slices.Clone(batch[i].Context)
	}
	separate := gradients(t, l, apart, weight)
	for i, p := range l.params {
		var largest, worst float64
		for k := range shared[i] {
			largest = max(largest, math.Abs(float64(separate[i][k])))
			worst = max(worst, math.Abs(float64(shared[i][k]-separate[i][k])))
		}
		if !(worst <= 1e-4*largest+1e-5) {
			t.Errorf("%s: gradients differ by %v; the largest is %v", p.names[0], worst, largest)
		}
	}

	total := func() (sum float64) {
		for i, row := range logits(t, l, batch) {
			for k, z := range row {
				sum += float64(weight[i][k]) * float64(z)
			}
		}
		return sum
	}
	for i, p := range l.params {
		if p.tensor == l.net.word {
			continue
		}
		var values []float32
		write := func(f func() error) {
			t.Helper()
			if err := l.runtime.do(func() error { defer withoutGradients()(); return f() }); err != nil {
				t.Fatal(err)
			}
		}
		write(func() (err error) { values, err = l.read(p.tensor, elements(p.tensor)); return err })
		at := rng.IntN(len(values))
		for k := range values { // an element that matters
			if math.Abs(float64(shared[i][k])) > math.Abs(float64(shared[i][at])) {
				at = k
			}
		}
		const by = 5e-3
		was := values[at]
		values[at] = was + by
		write(func() error { return l.write(p.tensor, values) })
		up := total()
		values[at] = was - by
		write(func() error { return l.write(p.tensor, values) })
		down := total()
		values[at] = was
		write(func() error { return l.write(p.tensor, values) })
		want := (up - down) / (2 * by)
		if got := float64(shared[i][at]); !(math.Abs(got-want) <= 0.02*math.Abs(want)+0.01) {
			t.Errorf("%s[%d]: gradient %v, finite difference %v", p.names[0], at, got, want)
		}
	}
}

// TestContextChunks takes the same step in several chunks, which may divide the sequences of a context.
func TestContextChunks(t *testing.T) {
	batch := withContexts(rand.New(rand.NewPCG(13, 14)), 12, 22, 96)
	whole, parts := contextLearner(t, LearnerOptions{}), contextLearner(t, LearnerOptions{MaxTokens: 60})
	if n, _ := parts.chunks(batch); len(n) < 2 {
		t.Fatalf("the test needs several chunks, got %d", len(n))
	}
	for _, l := range []*Learner{whole, parts} {
		if _, err := l.Step(batch, 1e-4, alternatingLoss); err != nil {
			t.Fatal(err)
		}
	}
	near(t, "chunked", logits(t, parts, batch), logits(t, whole, batch), 2e-4)
}

// TestAspectsStart checks which rows of the classifier each aspect of a trained model starts from.
func TestAspectsStart(t *testing.T) {
	r := newRuntime(t)
	dir := "../checkpoint/testdata/bert-aspects"
	batch := sequences([]int32{2, 9, 3}, []int32{2, 10, 11, 3})
	learner := func(dir string, aspects ...AspectInit) [][]float32 {
		t.Helper()
		l := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Seed: 5, Aspects: aspects})
		return logits(t, l, batch)
	}
	was := learner(dir) // toxicity, refusal
	if len(was[0]) != 4 {
		t.Fatalf("%d logits", len(was[0]))
	}
	got := learner(dir, AspectInit{Name: "refusal"}, AspectInit{Name: "new"}, AspectInit{Name: "insult", From: "toxicity"})
	again := learner(dir, AspectInit{Name: "refusal"}, AspectInit{Name: "new"}, AspectInit{Name: "insult", From: "toxicity"})
	for i := range got {
		near(t, "refusal and insult", [][]float32{got[i][:2], got[i][4:]}, [][]float32{was[i][2:], was[i][:2]}, 1e-6)
		if !slices.Equal(got[i], again[i]) || got[i][2] == got[i][3] {
			t.Errorf("logits of a new aspect are %v and %v", got[i][2:4], again[i][2:4])
		}
	}
	single := learner("../checkpoint/testdata/bert-one")
	named := learner("../checkpoint/testdata/bert-one", AspectInit{Name: "toxicity", From: rewardmodel.DefaultAspect}, AspectInit{Name: "b"})
	base := learner("../checkpoint/testdata/bert-model", AspectInit{Name: "a"}, AspectInit{Name: "b"})
	for i := range named {
		near(t, "a single logit", [][]float32{named[i][:2]}, [][]float32{single[i]}, 1e-6)
		if len(base[i]) != 4 {
			t.Errorf("%d logits of a base model", len(base[i]))
		}
	}

	for want, aspects := range map[string][]AspectInit{
		`no aspect "spam"`:                {{Name: "a", From: "spam"}},
		`two aspects are named "a"`:       {{Name: "a"}, {Name: "a"}},
		`"A" is not a name of an aspect`:  {{Name: "A"}},
		"a model needs at least one":      {},
		`has no aspect "default" for the`: {{Name: "a", From: "default"}},
	} {
		if _, err := r.NewLearner(openCheckpoint(t, dir), LearnerOptions{Aspects: aspects}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", aspects, err, want)
		}
	}
}

// TestContextIsAdded trains a model with one token type with context: without one its scores stay what they were, and
// the checkpoint that it writes reads contexts.
func TestContextIsAdded(t *testing.T) {
	r := newRuntime(t)
	dir := "../checkpoint/testdata/roberta-two"
	plain := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Seed: 1})
	added := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Seed: 1, Context: true})
	l := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Seed: 1, Context: true, Aspects: []AspectInit{{Name: "a", From: "default"}, {Name: "b"}}})
	batch := readGolden(t, dir).sequences()
	before := logits(t, plain, batch)
	near(t, "with a second token type", logits(t, added, batch), before, 0)
	for i, row := range logits(t, l, batch) {
		near(t, "with a second aspect", [][]float32{row[:2]}, [][]float32{before[i]}, 1e-6)
	}
	for i := 1; i < len(batch); i++ {
		batch[i].Context = batch[(i+1)/2].IDs
	}
	steps(t, l, batch, 3)
	tensors, err := l.Tensors(checkpoint.F32)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := checkpoint.Write(out, l.Config(), checkpoint.Manifest{Version: "test", Threshold: 0.5, Context: true}, tensors); err != nil {
		t.Fatal(err)
	}
	m := loadModel(t, r, out, FP32)
	if !slices.Equal(m.Aspects(), []string{"a", "b"}) || m.net.cfg.TypeVocab != 2 {
		t.Errorf("aspects %v, %d token types", m.Aspects(), m.net.cfg.TypeVocab)
	}
	got, err := m.Logits(batch)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "written", got, logits(t, l, batch), 1e-5)
}

func TestRescaleOneAspect(t *testing.T) {
	l := contextLearner(t, LearnerOptions{})
	batch := readGolden(t, "../checkpoint/testdata/bert-aspects").sequences()
	before := logits(t, l, batch)
	if err := l.Rescale(1, 0.5, 3); err != nil {
		t.Fatal(err)
	}
	for i, z := range logits(t, l, batch) {
		if !slices.Equal(z[:2], before[i][:2]) {
			t.Errorf("the first aspect's logits are %v, before %v", z[:2], before[i][:2])
		}
		want := 0.5*(before[i][2]-before[i][3]) + 3
		if d := math.Abs(float64(z[2] - z[3] - want)); d > 1e-4 {
			t.Errorf("margin %v, want %v", z[2]-z[3], want)
		}
	}
	if err := l.Rescale(2, 1, 0); err == nil {
		t.Error("an aspect that does not exist was rescaled")
	}
}
