package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
)

// tensorsOf returns all tensors of a classifier; those that the checkpoint lacks have
// small numbers.
func tensorsOf(t *testing.T, c *Checkpoint) []Tensor {
	t.Helper()
	var tensors []Tensor
	for _, spec := range Specs(c.Config, true) {
		tensor, err := c.Tensor(spec.Name)
		if errors.Is(err, ErrNoTensor) {
			n := 1
			for _, d := range spec.Shape {
				n *= d
			}
			values := make([]float32, n)
			for i := range values {
				values[i] = float32(i) / 256
			}
			tensor = FromFloat32(spec.Name, F32, spec.Shape, values)
		} else if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, tensor)
	}
	return tensors
}

// writeCopy writes a directory of testdata again.
func writeCopy(t *testing.T, dir, name string) {
	t.Helper()
	c := mustOpen(t, filepath.Join("testdata", name))
	if err := Write(dir, c.Config, Manifest{Version: "v1", Threshold: 0.5, Aspects: c.Manifest.Aspects}, tensorsOf(t, c)); err != nil {
		t.Fatal(err)
	}
}

func TestWriteRoundTrip(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.Contains(entry.Name(), "bert") {
			continue
		}
		t.Run(entry.Name(), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "deep", "model")
			writeCopy(t, dir, entry.Name())
			was, is := mustOpen(t, filepath.Join("testdata", entry.Name())), mustOpen(t, dir)

			if !is.HasClassifier() || is.Manifest.Version != "v1" || is.Manifest.Created.IsZero() {
				t.Errorf("classifier %v, manifest %+v", is.HasClassifier(), is.Manifest)
			}
			rows, single, err := was.Labels()
			if err != nil {
				t.Fatal(err)
			}
			want := AspectLabels(namesOf(was.Manifest.AspectList()))
			if single {
				want = want[1:]
			}
			if !slices.Equal(is.Config.Labels, want) {
				t.Errorf("labels %q", is.Config.Labels)
			}
			if err := is.VerifySHA256(t.Context()); err != nil {
				t.Error(err)
			}
			for _, spec := range Specs(was.Config, was.HasClassifier()) {
				before, err := was.Float32(spec.Name)
				if err != nil {
					t.Fatal(err)
				}
				after, err := is.Float32(spec.Name)
				if err != nil {
					t.Fatal(err)
				}
				if !single && strings.HasPrefix(spec.Name, was.Config.headName()+".") {
					size := len(before) / len(want)
					var head []float32
					for _, r := range rows {
						head = slices.Concat(head, before[r.Violation*size:(r.Violation+1)*size], before[r.Compliant*size:(r.Compliant+1)*size])
					}
					before = head
				}
				if !slices.Equal(before, after) {
					t.Errorf("%s differs", spec.Name)
				}
				a, _ := was.Info(spec.Name)
				b, _ := is.Info(spec.Name)
				if a.DType != b.DType {
					t.Errorf("%s was %s and is %s", spec.Name, a.DType, b.DType)
				}
			}
		})
	}
}

func TestWriteLayout(t *testing.T) {
	source := copyDirectory(t, "bert-f16")
	for _, name := range []string{"vocab.txt", "tokenizer_config.json", "unrelated.txt"} {
		writeAll(t, []byte(name), source, name)
	}
	edit(t, filepath.Join(source, "config.json"), `"model_type"`, `"their_field": [1, {"a": null}], "_name_or_path": "x", "model_type"`)
	c := mustOpen(t, source)
	files, err := TokenizerFiles(source)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "model")
	if err := Write(dir, c.Config, Manifest{Version: "v1", Unknown: []byte(`{"later":1}`)}, tensorsOf(t, c), files...); err != nil {
		t.Fatal(err)
	}

	if names := left(t, dir); names != "assay.json config.json model.safetensors tokenizer_config.json vocab.txt" {
		t.Errorf("files %q", names)
	}
	if string(readFile(t, dir, "vocab.txt")) != "vocab.txt" {
		t.Error("vocab.txt differs")
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	var config map[string]any
	if err := json.Unmarshal(readFile(t, dir, "config.json"), &config); err != nil {
		t.Fatal(err)
	}
	if config["dtype"] != "float16" || config["their_field"] == nil || config["_name_or_path"] != nil || config["layer_norm_eps"] != 1e-5 {
		t.Errorf("config %v", config)
	}
	file := readFile(t, dir, weightsFile)
	if n := int(file[0]) + int(file[1])<<8; n%8 != 0 || !bytes.Contains(file[:n], []byte(`"__metadata__":{"format":"pt"}`)) {
		t.Errorf("header of %d bytes: %.100q", n, file)
	}
	if manifest := string(readFile(t, dir, manifestFile)); !strings.Contains(manifest, `"later": 1`) || strings.Contains(manifest, `"assay.json"`) {
		t.Errorf("manifest %s", manifest)
	}
}

// A configuration that was built in code, of another family than the stored one, has
// everything that transformers needs.
func TestWriteConfigByHand(t *testing.T) {
	cfg := Config{
		ModelType: Roberta, HiddenSize: 8, Layers: 1, Heads: 2, Intermediate: 12, Vocab: 20, MaxPositions: 12,
		TypeVocab: 1, PadID: 1, LayerNormEps: 1e-5, HiddenAct: GELUTanh, NumLabels: 2,
	}
	cfg.raw = mustOpen(t, filepath.Join("testdata", "bert-two")).Config.raw
	var tensors []Tensor
	for _, spec := range Specs(cfg, true) {
		n := 1
		for _, d := range spec.Shape {
			n *= d
		}
		tensors = append(tensors, FromFloat32(spec.Name, BF16, spec.Shape, make([]float32, n)))
	}
	dir := filepath.Join(t.TempDir(), "model")
	if err := Write(dir, cfg, Manifest{Version: "v1"}, tensors); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, dir)
	got := c.Config
	got.raw, got.Labels, got.Architecture, cfg.raw = nil, nil, "", nil
	if a, b := toJSON(t, got), toJSON(t, cfg); a != b {
		t.Errorf("got %s, want %s", a, b)
	}
	if text := string(readFile(t, dir, "config.json")); strings.Contains(text, "is_decoder") || !strings.Contains(text, `"dtype": "bfloat16"`) {
		t.Errorf("config %s", text)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWriteRejects(t *testing.T) {
	c := mustOpen(t, filepath.Join("testdata", "bert-two"))
	type call struct {
		cfg     Config
		man     Manifest
		tensors []Tensor
		files   []string
	}
	body := func(text string) func(*call) {
		return func(x *call) {
			x.tensors[0].WriteTo = func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
		}
	}
	values := func(bad float32) func(*call) {
		return func(x *call) {
			v := make([]float32, 96*16)
			v[99] = bad
			x.tensors[0] = FromFloat32(x.tensors[0].Name, F32, x.tensors[0].Shape, v)
		}
	}
	var zero float32
	tests := []struct {
		name   string
		change func(*call)
		text   string
	}{
		{"no version", func(x *call) { x.man.Version = "" }, "version is empty"},
		{"threshold", func(x *call) { x.man.Threshold = 2 }, "threshold is 2"},
		{"three labels", func(x *call) { x.cfg.NumLabels = 3 }, "num_labels is 3"},
		{"another family", func(x *call) { x.cfg.ModelType = "gpt2" }, `model_type "gpt2"`},
		{"no heads", func(x *call) { x.cfg.Heads = 0 }, "num_attention_heads"},
		{"missing tensor", func(x *call) { x.tensors = x.tensors[1:] }, `"embeddings.word_embeddings.weight" is missing`},
		{"tensor twice", func(x *call) { x.tensors = append(x.tensors, x.tensors[0]) }, "given twice"},
		{"unknown tensor", func(x *call) { x.tensors[0].Name = "ghost" }, `tensor "ghost" is given twice or does not belong to BertForSequenceClassification`},
		{"another shape", func(x *call) { x.tensors[0].Shape = []int{16, 96} }, "the configuration implies [96 16]"},
		{"another type", func(x *call) { x.tensors[0].DType = I64 }, "weights must be F32, F16, BF16 or I8"},
		{"too few bytes", body("1234"), "6140 bytes are missing"},
		{"too many bytes", body(strings.Repeat("12345678", 800)), "more than the 6144 bytes"},
		{"source fails", func(x *call) {
			x.tensors[0].WriteTo = func(w io.Writer) error { _, err := io.Copy(w, iotest.ErrReader(io.ErrClosedPipe)); return err }
		}, io.ErrClosedPipe.Error()},
		{"infinite", values(1 / zero), ErrNotFinite.Error()},
		{"NaN", values(zero / zero), `tensor "embeddings.word_embeddings.weight": ` + ErrNotFinite.Error()},
		{"NaN in bytes one by one", func(x *call) {
			x.tensors[0].WriteTo = func(w io.Writer) error {
				for range 96 * 16 {
					for _, b := range []byte{0, 0, 0xc0, 0x7f} {
						if _, err := w.Write([]byte{b}); err != nil {
							return err
						}
					}
				}
				return nil
			}
		}, ErrNotFinite.Error()},
		{"missing file", func(x *call) { x.files = []string{"testdata/ghost"} }, "ghost"},
		{"a directory as file", func(x *call) { x.files = []string{"testdata"} }, "directory"},
		{"config as file", func(x *call) { x.files = []string{"testdata/bert-two/config.json"} }, "config.json would be written twice"},
		{"manifest as file", func(x *call) { x.files = []string{"testdata/assay.json"} }, "assay.json would be written twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			x := call{c.Config, Manifest{Version: "v1"}, tensorsOf(t, c), nil}
			test.change(&x)
			parent := t.TempDir()
			err := Write(filepath.Join(parent, "model"), x.cfg, x.man, x.tensors, x.files...)
			wantError(t, err, nil, test.text)
			if left, _ := os.ReadDir(parent); len(left) > 0 {
				t.Errorf("left %s behind", left[0].Name())
			}
		})
	}
}

// Tensors that are written byte by byte result in the same file.
func TestWriteByteByByte(t *testing.T) {
	c := mustOpen(t, filepath.Join("testdata", "bert-two"))
	tensors := tensorsOf(t, c)
	for i, tensor := range tensors {
		tensors[i].WriteTo = func(w io.Writer) error {
			var buffer bytes.Buffer
			if err := tensor.WriteTo(&buffer); err != nil {
				return err
			}
			_, err := io.Copy(struct{ io.Writer }{w}, iotest.OneByteReader(&buffer))
			return err
		}
	}
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	if err := Write(a, c.Config, Manifest{Version: "v1"}, tensors); err != nil {
		t.Fatal(err)
	}
	writeCopy(t, b, "bert-two")
	if !bytes.Equal(readFile(t, a, weightsFile), readFile(t, b, weightsFile)) {
		t.Error("the weights differ")
	}
}
