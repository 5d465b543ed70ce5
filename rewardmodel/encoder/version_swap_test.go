package encoder

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/versions"
)

// letters is a tokenizer for tests: one token for each byte.
type letters struct{}

func (letters) IDsContext(ctx context.Context, text string) ([]int32, error) {
	ids := make([]int32, len(text))
	for i := range ids {
		ids[i] = 3 + int32(text[i]%16)
	}
	return ids, ctx.Err()
}

func (letters) Frame(ids []int32) []int32 { return append(append([]int32{0}, ids...), 2) }
func (letters) Special() int              { return 2 }

// checkpointLoader loads checkpoints as versions.
type checkpointLoader struct {
	runtime     *Runtime
	checkpoints map[string]*checkpoint.Checkpoint
}

func (c checkpointLoader) Load(_ context.Context, version string, room func(int64) error) (versions.Loaded, error) {
	ckpt := c.checkpoints[version]
	bytes, err := c.runtime.Bytes(ckpt, FP32)
	if err != nil {
		return versions.Loaded{}, err
	}
	if err := room(bytes); err != nil {
		return versions.Loaded{}, err
	}
	m, err := c.runtime.Load(ckpt, FP32)
	if err != nil {
		return versions.Loaded{}, err
	}
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: version, MaxLength: m.MaxLength()}, m, letters{}, nil)
	return versions.Loaded{Scorer: scorer, Bytes: bytes, Free: m.Close}, err
}

// Versions are swapped, pinned and freed on one libtorch thread: every response is computed by the version that it
// names, none fails, and no tensor is left.
func TestVersionSwaps(t *testing.T) {
	names := []string{"roberta-two", "deberta-v2", "bert-two"}
	r := newRuntime(t)
	checkpoints := map[string]*checkpoint.Checkpoint{}
	for _, name := range names {
		checkpoints[name] = openCheckpoint(t, filepath.Join("../checkpoint/testdata", name))
	}
	before := ts.LiveTensors.Load()
	versions, err := versions.New(versions.Config{}, checkpointLoader{r, checkpoints}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := "abcdefgh. hgfe."
	want := map[string]float64{}
	for _, name := range names {
		if err := versions.Promote(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		response, err := versions.Score(t.Context(), rewardmodel.Request{Responses: []rewardmodel.Item{{Response: &text}}})
		if err != nil {
			t.Fatal(err)
		}
		want[name] = response.Results[0].Violation
	}
	if want[names[0]] == want[names[1]] || want[names[1]] == want[names[2]] {
		t.Fatalf("versions cannot be told apart: %v", want)
	}
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(5, uint64(client)))
			for i := range 60 {
				other := strings.Repeat("x", 1+i%20)
				req := rewardmodel.Request{Responses: []rewardmodel.Item{{Response: &text}, {Response: &other}}}
				if random.IntN(4) == 0 {
					req.Model = names[random.IntN(len(names))]
				}
				response, err := versions.Score(t.Context(), req)
				if req.Model != "" && errors.Is(err, rewardmodel.ErrOverloaded) {
					continue // two others are in use
				}
				if err != nil {
					t.Error(err)
					return
				}
				v := response.Model.Version
				if req.Model != "" && v != req.Model || math.Abs(response.Results[0].Violation-want[v]) > 1e-5 {
					t.Errorf("%q is scored %v by %s, want %v", req.Model, response.Results[0].Violation, v, want[v])
				}
			}
		})
	}
	for i := range 40 {
		if err := versions.Promote(t.Context(), names[i%len(names)]); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if err := versions.Close(); err != nil {
		t.Error(err)
	}
	if now := ts.LiveTensors.Load(); now > before {
		t.Errorf("%d tensors live after Close, %d before", now, before)
	}
}
