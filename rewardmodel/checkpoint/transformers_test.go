package checkpoint

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
)

// golden is the content of a golden.json of testdata.
type golden struct {
	Cases []struct {
		IDs     []int     `json:"input_ids"`
		Context []int     `json:"context"`
		Logits  []float64 `json:"logits"`
	} `json:"cases"`
}

func readGolden(t *testing.T, name string) golden {
	t.Helper()
	var g golden
	if err := json.Unmarshal(readFile(t, "testdata", name, "golden.json"), &g); err != nil {
		t.Fatal(err)
	}
	for i := len(g.Cases) - 1; i >= 0; i-- { // transformers does not read contexts
		if len(g.Cases[i].Context) > 0 {
			g.Cases = slices.Delete(g.Cases, i, i+1)
		}
	}
	return g
}

// transformers loads a written checkpoint and computes the same logits as for the
// original. $ASSAY_PYTHON is a Python with transformers and compressed-tensors.
func TestTransformersLoads(t *testing.T) {
	python := os.Getenv("ASSAY_PYTHON")
	if python == "" {
		t.Skip("ASSAY_PYTHON does not name a Python with transformers")
	}
	parent := t.TempDir()
	input := map[string][][]int{}
	var directories []string
	for _, name := range []string{
		"roberta-aspects", "bert-aspects", "roberta-two", "roberta-reversed", "roberta-one", "roberta-sharded", "roberta-bf16", "roberta-int8",
		"bert-two", "bert-reversed", "bert-one", "bert-f16",
		"deberta-v3", "deberta-v2", "deberta-c2p", "deberta-p2c", "deberta-shared-c2p", "deberta-shared-p2c", "deberta-content",
		"modernbert-two", "modernbert-mean", "modernbert-one", "modernbert-bf16", "modernbert-wide",
	} {
		dir := filepath.Join(parent, name)
		writeCopy(t, dir, name)
		directories = append(directories, name)
		for _, c := range readGolden(t, name).Cases {
			input[dir] = append(input[dir], c.IDs)
		}
	}
	stdin, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "logits.py"))
	command.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1")
	command.Stdin = bytes.NewReader(stdin)
	command.Stderr = t.Output()
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var result map[string]struct {
		Class     string      `json:"class"`
		Unmatched []string    `json:"unmatched"`
		Labels    []string    `json:"labels"`
		DType     string      `json:"dtype"`
		Logits    [][]float64 `json:"logits"`
	}
	if err := json.Unmarshal(output, &result); err != nil {
		t.Fatal(err)
	}
	for _, name := range directories {
		got := result[filepath.Join(parent, name)]
		c := mustOpen(t, filepath.Join(parent, name))
		info, _ := c.Info(c.Config.WordEmbeddings())
		if got.Class != c.Config.Architecture || len(got.Unmatched) > 0 || !slices.Equal(got.Labels, c.Config.Labels) || got.DType != "torch."+info.DType.torchName() {
			t.Errorf("%s: %+v", name, got)
		}
		original := mustOpen(t, filepath.Join("testdata", name))
		rows, single, err := original.Labels()
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range readGolden(t, name).Cases {
			want := c.Logits
			if !single { // Write stores the violation first
				want = nil
				for _, r := range rows {
					want = append(want, c.Logits[r.Violation], c.Logits[r.Compliant])
				}
			}
			for j := range want {
				if len(got.Logits[i]) != len(want) || math.Abs(got.Logits[i][j]-want[j]) > 1e-5 {
					t.Errorf("%s: logits %v, want %v", name, got.Logits[i], want)
				}
			}
		}
	}
}
