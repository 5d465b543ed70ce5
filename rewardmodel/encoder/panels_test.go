package encoder

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
	"assay/rewardmodel/train"
)

// panelPrecisions are those that are computed in panels.
var panelPrecisions = []Precision{Int8, BF16}

// loadInPanels loads a checkpoint that has no tokenizer, an int8 one checked on sequences.
func loadInPanels(t testing.TB, r *Runtime, dir string, p Precision, checks []rewardmodel.Sequence) *Model {
	t.Helper()
	if p == Int8 {
		return loadInt8(t, r, dir, checks)
	}
	needPanels(t, r, p)
	return loadModel(t, r, dir, p)
}

func needPanels(t testing.TB, r *Runtime, p Precision) {
	t.Helper()
	if p == Int8 {
		needInt8(t, r)
	} else if !r.bf16Panels(checkpoint.Config{}) {
		t.Skip("no panels in bf16 here")
	}
}

func shippedInPanels(t testing.TB, r *Runtime, p Precision) (*Model, *tokenizer.Tokenizer) {
	t.Helper()
	if _, err := os.Stat(shippedModel); err != nil {
		t.Skip("no shipped model: run make model")
	}
	needPanels(t, r, p)
	tok, err := tokenizer.Load(shippedModel)
	if err != nil {
		t.Fatal(err)
	}
	return loadModel(t, r, shippedModel, p), tok
}

// TestPanelsLeakNothing checks that no tensor is left after loading, scoring and closing.
func TestPanelsLeakNothing(t *testing.T) {
	r := wideRuntime(t)
	dir := "../checkpoint/testdata/roberta-two"
	batch := readGolden(t, dir).sequences()
	for _, p := range panelPrecisions {
		t.Run(string(p), func(t *testing.T) {
			needPanels(t, r, p)
			before := ts.LiveTensors.Load()
			for range 2 {
				m, err := func() (*Model, error) {
					if p == Int8 {
						return r.loadInt8With(openCheckpoint(t, dir), batch)
					}
					return r.Load(openCheckpoint(t, dir), p)
				}()
				if err != nil {
					t.Fatal(err)
				}
				loaded := ts.LiveTensors.Load()
				for range 3 {
					if _, err := m.Margins(batch); err != nil {
						t.Fatal(err)
					}
				}
				if now := ts.LiveTensors.Load(); now > loaded {
					t.Errorf("%d tensors live after scoring, %d before", now, loaded)
				}
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
				if now := ts.LiveTensors.Load(); now > before {
					t.Errorf("%d tensors live after Close, %d at the start", now, before)
				}
			}
		})
	}
}

// TestPanelsKeepNonFinite checks that a value that is not finite is neither lost in the layers nor reaches other sequences.
func TestPanelsKeepNonFinite(t *testing.T) {
	for _, p := range panelPrecisions {
		for _, value := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			dir := randomCheckpoint(t, rand.New(rand.NewPCG(5, 6)), 64, 2, 128, checkpoint.GELU, "a")
			m := loadInPanels(t, wideRuntime(t), dir, p, sequences([]int32{1, 2, 3}))
			m.setEmbedding(5*64+7, value)
			if _, err := m.Margins(sequences([]int32{1, 4, 3})); err != nil {
				t.Errorf("%s: without the token: %v", p, err)
			}
			if margins, err := m.Margins(sequences([]int32{1, 4, 3, 5})); !errors.Is(err, train.ErrNotFinite) {
				t.Errorf("%s: %v: %v, %v", p, value, margins, err)
			}
		}
	}
}

// setEmbedding overwrites a value of the embeddings of words.
func (m *Model) setEmbedding(i int, value float32) {
	if word := m.panels.model.word; m.precision == BF16 {
		unsafe.Slice((*uint16)(word), i+1)[i] = uint16(math.Float32bits(value) >> 16)
	} else {
		unsafe.Slice((*float32)(word), i+1)[i] = value
	}
}

// TestPanelLevelsAgree scores at every level that the processor supports. In int8, not one bit of a last hidden state may
// differ; those in bf16 add in different orders.
func TestPanelLevelsAgree(t *testing.T) {
	r := wideRuntime(t)
	dirs := []string{randomCheckpoint(t, rand.New(rand.NewPCG(5, 6)), 60, 3, 100, checkpoint.GELUTanh, "a", "b")}
	if _, err := os.Stat(shippedModel); err == nil && !testing.Short() {
		dirs = append(dirs, shippedModel)
	}
	for _, dir := range dirs {
		for _, p := range panelPrecisions {
			t.Run(string(p), func(t *testing.T) { compareLevels(t, r, dir, p) })
		}
	}
}

func compareLevels(t *testing.T, r *Runtime, dir string, p Precision) {
	m := loadInPanels(t, r, dir, p, sequences([]int32{1, 2, 3}))
	batch := withContexts(rand.New(rand.NewPCG(7, 8)), 12, 64, m.net.cfg.Vocab)
	if !m.net.contexts {
		for i := range batch {
			batch[i].Context = nil
		}
	}
	var want []float32
	for _, level := range panelLevels(p) {
		m.panels.level = level
		packed, err := m.net.pack(batch)
		if err != nil {
			t.Fatal(err)
		}
		var states []float32
		err = r.do(func() error {
			states, err = m.panels.states(r, packed)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = states
		}
		if p == BF16 {
			var square, total float64
			for i := range want {
				d, w := float64(states[i]-want[i]), float64(want[i])
				square, total = square+d*d, total+w*w
			}
			if relative := math.Sqrt(square / total); !(relative < 0.02) {
				t.Errorf("level %d differs from the portable one by %.4f of it", level, relative)
			}
		} else if !slices.Equal(asBytes(states), asBytes(want)) {
			t.Errorf("level %d differs from the portable one", level)
		}
	}
}

// TestDivide checks that each sequence is in one panel, that without contexts no panel has more rows than another by more
// than the longest sequence, and that a context is computed once for each panel's share of its sequences.
func TestDivide(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		sequences := 1 + rng.IntN(60)
		p := &packed{lengths: make([]int64, sequences), first: make([]int64, sequences)}
		var total int64
		for s := range p.lengths {
			p.lengths[s] = 1 + rng.Int64N(80)
			total += p.lengths[s]
		}
		if rng.IntN(2) == 0 {
			p.contexts.first, p.contexts.lengths = make([]int64, 2), []int64{1 + rng.Int64N(100), 1 + rng.Int64N(100)}
			p.contexts.of = make([]int, len(p.lengths))
			for s := range p.lengths {
				p.contexts.of[s] = rng.IntN(3) - 1
			}
		}
		number := 1 + rng.IntN(8)
		share := (total + int64(number) - 1) / int64(number)
		divided := p.divide(number, share)
		if len(divided) > number {
			t.Fatalf("%d panels, want at most %d", len(divided), number)
		}
		var all []int
		var sizes []int64
		for _, sequences := range divided {
			all, sizes = append(all, sequences...), append(sizes, new(panels).add(p, sequences))
		}
		slices.Sort(all)
		for i, s := range all {
			if i != s || len(all) != len(p.lengths) {
				t.Fatalf("sequences %v of %d", all, len(p.lengths))
			}
		}
		if p.contexts.of == nil && slices.Max(sizes)-slices.Min(sizes) > slices.Max(p.lengths) {
			t.Errorf("panels of %d rows, but no sequence has more than %d", sizes, slices.Max(p.lengths))
		}
		var rows int64
		for _, n := range sizes {
			rows += n
		}
		want := total
		for c, n := range p.contexts.lengths {
			var own int64
			for s, of := range p.contexts.of {
				if of == c {
					own += p.lengths[s]
				}
			}
			want += n * (own/max(share-80, 1) + 1) // a load is closed when the next sequence does not fit
		}
		if rows > want {
			t.Errorf("%d rows, want at most %d: contexts are computed too often", rows, want)
		}
	}
}
