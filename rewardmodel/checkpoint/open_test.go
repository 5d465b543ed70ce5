package checkpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	tests := []struct {
		dir, architecture string
		classifier        bool
		violation         int
		single            bool
		word              string // stored name of the word embeddings
		dtype             DType
	}{
		{"roberta-two", "RobertaForSequenceClassification", true, 0, false, "roberta.embeddings.word_embeddings.weight", F32},
		{"roberta-reversed", "RobertaForSequenceClassification", true, 1, false, "roberta.embeddings.word_embeddings.weight", F32},
		{"roberta-one", "RobertaForSequenceClassification", true, 0, true, "roberta.embeddings.word_embeddings.weight", F32},
		{"roberta-sharded", "RobertaForSequenceClassification", true, 0, false, "roberta.embeddings.word_embeddings.weight", F32},
		{"roberta-bf16", "RobertaForSequenceClassification", true, 0, false, "roberta.embeddings.word_embeddings.weight", BF16},
		{"roberta-mlm", "RobertaForMaskedLM", false, 0, false, "roberta.embeddings.word_embeddings.weight", F32},
		{"roberta-model", "RobertaModel", false, 0, false, "embeddings.word_embeddings.weight", F32},
		{"bert-two", "BertForSequenceClassification", true, 0, false, "bert.embeddings.word_embeddings.weight", F32},
		{"bert-reversed", "BertForSequenceClassification", true, 1, false, "bert.embeddings.word_embeddings.weight", F32},
		{"bert-one", "BertForSequenceClassification", true, 0, true, "bert.embeddings.word_embeddings.weight", F32},
		{"bert-f16", "BertForSequenceClassification", true, 0, false, "bert.embeddings.word_embeddings.weight", F16},
		{"bert-mlm", "BertForMaskedLM", false, 0, false, "bert.embeddings.word_embeddings.weight", F32},
		{"bert-model", "BertModel", false, 0, false, "embeddings.word_embeddings.weight", F32},
		{"bert-pretraining-legacy", "BertForPreTraining", false, 0, false, "bert.embeddings.word_embeddings.weight", F32},
		{"deberta-v3", "DebertaV2ForSequenceClassification", true, 0, false, "deberta.embeddings.word_embeddings.weight", F32},
		{"deberta-v2", "DebertaV2ForSequenceClassification", true, 1, false, "deberta.embeddings.word_embeddings.weight", F32},
		{"deberta-c2p", "DebertaV2ForSequenceClassification", true, 0, true, "deberta.embeddings.word_embeddings.weight", F32},
		{"deberta-shared-p2c", "DebertaV2ForSequenceClassification", true, 0, false, "deberta.embeddings.word_embeddings.weight", BF16},
		{"deberta-mlm", "DebertaV2ForMaskedLM", false, 0, false, "deberta.embeddings.word_embeddings.weight", F32},
		{"deberta-model", "DebertaV2Model", false, 0, false, "embeddings.word_embeddings.weight", F32},
		{"modernbert-two", "ModernBertForSequenceClassification", true, 0, false, "model.embeddings.tok_embeddings.weight", F32},
		{"modernbert-mean", "ModernBertForSequenceClassification", true, 1, false, "model.embeddings.tok_embeddings.weight", F32},
		{"modernbert-one", "ModernBertForSequenceClassification", true, 0, true, "model.embeddings.tok_embeddings.weight", F32},
		{"modernbert-bf16", "ModernBertForSequenceClassification", true, 0, false, "model.embeddings.tok_embeddings.weight", BF16},
		{"modernbert-mlm", "ModernBertForMaskedLM", false, 0, false, "model.embeddings.tok_embeddings.weight", F32},
		{"modernbert-model", "ModernBertModel", false, 0, false, "embeddings.tok_embeddings.weight", F32},
	}
	for _, test := range tests {
		t.Run(test.dir, func(t *testing.T) {
			c := mustOpen(t, filepath.Join("testdata", test.dir))
			rows, single, err := c.Labels()
			if err != nil || len(rows) != 1 || rows[0].Violation != test.violation || single != test.single {
				t.Errorf("labels: %v, %v, %v", rows, single, err)
			}
			if c.Config.Architecture != test.architecture || c.HasClassifier() != test.classifier {
				t.Errorf("architecture %s, classifier %v", c.Config.Architecture, c.HasClassifier())
			}
			if c.MaxLength() != 22 || c.Manifest.Threshold != 0.5 || c.Manifest.Version != "" {
				t.Errorf("max length %d, manifest %+v", c.MaxLength(), c.Manifest)
			}
			if name, _ := c.Name(c.Config.WordEmbeddings()); name != test.word {
				t.Errorf("word embeddings are %q", name)
			}
			for _, spec := range Specs(c.Config, test.classifier) {
				info, ok := c.Info(spec.Name)
				if !ok || !slices.Equal(info.Shape, spec.Shape) || info.DType != test.dtype {
					t.Errorf("%s: %+v, %v", spec.Name, info, ok)
				}
				if _, err := c.Float32(spec.Name); err != nil {
					t.Error(err)
				}
			}
			list := c.Tensors()
			if !slices.IsSortedFunc(list, func(a, b TensorInfo) int { return strings.Compare(a.Name, b.Name) }) || len(list) == 0 {
				t.Error("tensors are not sorted")
			}
		})
	}
}

// The pooler of a base model is available for training; its pretraining heads are not
// treated as a classifier.
func TestOpenBaseModel(t *testing.T) {
	for dir, pooler := range map[string]bool{"bert-model": true, "bert-mlm": false, "bert-pretraining-legacy": true, "roberta-model": false} {
		c := mustOpen(t, filepath.Join("testdata", dir))
		if _, ok := c.Name("pooler.dense.weight"); ok != pooler {
			t.Errorf("%s: pooler is %v", dir, ok)
		}
		if _, ok := c.Name("classifier.weight"); ok {
			t.Errorf("%s: has a classifier", dir)
		}
	}
}

func TestOpenWithoutArchitectures(t *testing.T) {
	for dir, want := range map[string]string{
		"roberta-two": "RobertaForSequenceClassification", "roberta-mlm": "RobertaModel",
		"bert-two": "BertForSequenceClassification", "bert-model": "BertModel",
	} {
		copied := copyDirectory(t, dir)
		edit(t, filepath.Join(copied, "config.json"), `"architectures"`, `"other"`)
		if c := mustOpen(t, copied); c.Config.Architecture != want {
			t.Errorf("%s: guessed %s", dir, c.Config.Architecture)
		}
	}
}

func TestOpenRejects(t *testing.T) {
	const query = "encoder.layer.1.attention.self.query.weight"
	config := func(old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "config.json"), old, new) }
	}
	header := func(old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { editHeader(t, filepath.Join(dir, weightsFile), old, new) }
	}
	index := func(old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, indexFile), old, new) }
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	pickle := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			remove(weightsFile)(t, dir)
			writeAll(t, []byte("PK\x03\x04"), dir, name)
		}
	}
	const first = "model-00001-of-00005.safetensors"
	tests := []struct {
		name, dir string
		damage    func(*testing.T, string)
		kind      error
		text      string
	}{
		{"no config", "bert-two", remove("config.json"), fs.ErrNotExist, "config.json"},
		{"no weights", "bert-two", remove(weightsFile), fs.ErrNotExist, weightsFile},
		{"a pickle", "bert-two", pickle("pytorch_model.bin"), ErrUnsupported, "pytorch_model.bin cannot be read"},
		{"a pickle in shards", "bert-two", pickle("pytorch_model-00001-of-00002.bin"), ErrUnsupported, "save_pretrained"},
		{"TensorFlow weights", "bert-two", pickle("tf_model.h5"), ErrUnsupported, "tf_model.h5"},
		{"huge config", "bert-two", func(t *testing.T, dir string) {
			writeAll(t, make([]byte, maxConfig+1), dir, "config.json")
		}, ErrDamaged, "config.json is 1048577 bytes long"},
		{"truncated weights", "bert-two", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, weightsFile), 20_000); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged, "truncated"},
		{"weights are a directory", "bert-two", func(t *testing.T, dir string) {
			remove(weightsFile)(t, dir)
			if err := os.Mkdir(filepath.Join(dir, weightsFile), 0o755); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged, "not a regular file"},
		{"weights are a pipe", "bert-two", func(t *testing.T, dir string) {
			remove(weightsFile)(t, dir)
			if err := unix.Mkfifo(filepath.Join(dir, weightsFile), 0o644); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged, "not a regular file"},
		{"link out of the directory", "bert-two", func(t *testing.T, dir string) {
			link(t, dir, "../weights.safetensors")
		}, ErrDamaged, "symbolic link"},
		{"absolute link", "bert-two", func(t *testing.T, dir string) {
			link(t, dir, filepath.Join(filepath.Dir(dir), "weights.safetensors"))
		}, ErrDamaged, "symbolic link"},
		{"link to itself", "bert-two", func(t *testing.T, dir string) {
			remove(weightsFile)(t, dir)
			if err := os.Symlink(weightsFile, filepath.Join(dir, weightsFile)); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged, "symbolic link"},
		{"missing tensor", "bert-two", header("bert."+query, "bert.encoder.layer.1.attention.self.other.weight"), ErrDamaged, `"bert.` + query + `" is missing`},
		{"missing embeddings", "bert-two", header("bert.embeddings.word_embeddings.weight", "other"), ErrDamaged, `"bert.embeddings.word_embeddings.weight" is missing`},
		{"missing norm", "roberta-two", header("roberta.embeddings.LayerNorm.bias", "other"), ErrDamaged, `"roberta.embeddings.LayerNorm.bias" is missing`},
		{"missing classifier", "roberta-two", header("classifier.out_proj.bias", "other"), ErrDamaged, `"classifier.out_proj.bias" is missing`},
		{"missing pooler", "bert-two", header("bert.pooler.dense.bias", "other"), ErrDamaged, `"bert.pooler.dense.bias" is missing`},
		{"base model that claims a classifier", "bert-model", config("BertModel", "BertForSequenceClassification"), ErrDamaged, "is missing"},
		{"weights of the other family", "bert-two", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "config.json"), "BertForSequenceClassification", "RobertaForSequenceClassification")
			edit(t, filepath.Join(dir, "config.json"), `"model_type": "bert"`, `"model_type": "roberta"`)
		}, ErrDamaged, `"roberta.embeddings.word_embeddings.weight" is missing`},
		{"another vocabulary", "bert-two", config(`"vocab_size": 96`, `"vocab_size": 97`), ErrDamaged, "shape [96 16], but config.json implies [97 16]"},
		{"another hidden size", "bert-two", config(`"hidden_size": 16`, `"hidden_size": 32`), ErrDamaged, "config.json implies [96 32]"},
		{"more layers", "bert-two", config(`"num_hidden_layers": 2`, `"num_hidden_layers": 3`), ErrDamaged, `encoder.layer.2.attention.self.query.weight" is missing`},
		{"more labels", "bert-two", config(`"1": "compliant"`, `"1": "compliant", "2": "x"`), ErrDamaged, `"classifier.weight" has shape [2 16], but config.json implies [3 16]`},
		{"transposed", "bert-two", header(`[24,16]`, `[16,24]`), ErrDamaged, "config.json implies [24 16]"},
		{"another rank", "bert-two", header(`[96,16]`, `[1,96,16]`), ErrDamaged, "has shape [1 96 16]"},
		{"integers as weights", "bert-f16", header(`"F16"`, `"I16"`), ErrUnsupported, "is I16; weights must be F32, F16 or BF16"},
		{"index is not JSON", "roberta-sharded", index("{", ""), ErrDamaged, indexFile},
		{"index without a map", "roberta-sharded", index("weight_map", "weights"), ErrDamaged, "weight_map is missing or empty"},
		{"index names no such tensor", "roberta-sharded", index(`"weight_map": {`, `"weight_map": {"ghost": "`+first+`",`), ErrDamaged, `tensor "ghost" is not in ` + first},
		{"index lacks a tensor", "roberta-sharded", index(`"roberta.`+query+`"`, `"roberta.encoder.layer.1.attention.self.query.bias2"`), ErrDamaged, "is not in"},
		{"missing shard", "roberta-sharded", remove(first), fs.ErrNotExist, first},
		{"shard above", "roberta-sharded", index(first, "../"+first), ErrDamaged, "is not the name of a file in the directory"},
		{"absolute shard", "roberta-sharded", index(first, "/etc/passwd"), ErrDamaged, "is not the name of a file in the directory"},
		{"shard in a directory", "roberta-sharded", index(first, "sub/"+first), ErrDamaged, "is not the name of a file in the directory"},
		{"shard without a name", "roberta-sharded", index(first, ""), ErrDamaged, "is not the name of a file in the directory"},
		{"shard is the directory", "roberta-sharded", index(first, ".."), ErrDamaged, "is not the name of a file in the directory"},
		{"shard with a NUL", "roberta-sharded", index(first, `a\u0000.safetensors`), ErrDamaged, "is not the name of a file in the directory"},
		{"shard is a pickle", "roberta-sharded", index(first, "pytorch_model.bin"), ErrUnsupported, "not a safetensors file"},
		{"damaged shard", "roberta-sharded", func(t *testing.T, dir string) {
			writeAll(t, []byte("short"), dir, first)
		}, ErrDamaged, first + ": only 5 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := copyDirectory(t, test.dir)
			test.damage(t, dir)
			c, err := Open(dir)
			if err == nil {
				c.Close()
			}
			wantError(t, err, test.kind, test.text)
		})
	}

	_, err := Open(filepath.Join(t.TempDir(), "nowhere"))
	wantError(t, err, fs.ErrNotExist, "nowhere")
	_, err = Open("checkpoint.go")
	wantError(t, err, nil, "checkpoint.go")
}

// link moves the weights next to the directory and links to them.
func link(t *testing.T, dir, to string) {
	t.Helper()
	weights := filepath.Join(dir, weightsFile)
	if err := os.Rename(weights, filepath.Join(filepath.Dir(dir), "weights.safetensors")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, weights); err != nil {
		t.Fatal(err)
	}
}

// The cache of a hub links from a snapshot to blobs next to it.
func TestOpenHubCache(t *testing.T) {
	repository := filepath.Join(t.TempDir(), "models--org--name")
	snapshot := filepath.Join(repository, "snapshots", "0123abcd")
	blobs := filepath.Join(repository, "blobs")
	for _, dir := range []string{snapshot, blobs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"config.json", weightsFile} {
		writeAll(t, readFile(t, "testdata", "bert-two", name), blobs, "blob-of-"+name)
		if err := os.Symlink("../../blobs/blob-of-"+name, filepath.Join(snapshot, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := mustOpen(t, snapshot).Float32("classifier.weight"); err != nil {
		t.Error(err)
	}

	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(snapshot, alias); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, alias)
}

// A shard may have tensors that the index does not list; they are ignored.
func TestOpenIgnoresUnlistedTensors(t *testing.T) {
	dir := copyDirectory(t, "roberta-sharded")
	writeAll(t, safetensors(`{"extra":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"classifier.dense.bias":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "aaaabbbb"), dir, "z.safetensors")
	edit(t, filepath.Join(dir, indexFile), `"weight_map": {`, `"weight_map": {"extra": "z.safetensors",`)
	c := mustOpen(t, dir)
	if info, _ := c.Info("classifier.dense.bias"); !slices.Equal(info.Shape, []int{16}) {
		t.Errorf("the wrong shard won: %+v", info)
	}
	if _, ok := c.Info("extra"); !ok {
		t.Error("extra is missing")
	}
}
