package checkpoint

import (
	"fmt"
	"strings"
)

// TensorSpec is a tensor that a model of a given configuration needs: its
// canonical name and its shape.
//
// Canonical names are those of a Hugging Face encoder without the prefix of
// its family: "embeddings.word_embeddings.weight",
// "encoder.layer.3.attention.self.query.weight", and for the classifier
// "classifier.dense.weight", "classifier.out_proj.weight" (RoBERTa) or
// "pooler.dense.weight", "classifier.weight" (BERT, DeBERTa). ModernBERT has names of
// its own: "layers.3.attn.Wqkv.weight", "head.dense.weight". A matrix is [out, in], a
// bias or norm [out].
type TensorSpec struct {
	Name  string
	Shape []int
}

// Specs returns the tensors of cfg's encoder in the order of the forward pass
// and, with withClassifier, those of the classifier after them. It allocates
// in proportion to cfg.Layers, which Open bounds.
func Specs(cfg Config, withClassifier bool) []TensorSpec {
	if cfg.ModelType == ModernBert {
		return cfg.modernSpecs(withClassifier)
	}
	h, f := cfg.HiddenSize, cfg.Intermediate
	var specs []TensorSpec
	add := func(name string, shape ...int) {
		specs = append(specs, TensorSpec{Name: name, Shape: shape})
	}
	linear := func(name string, out, in int) {
		add(name+".weight", out, in)
		add(name+".bias", out)
	}
	norm := func(name string) {
		add(name+".weight", h)
		add(name+".bias", h)
	}

	add(cfg.WordEmbeddings(), cfg.Vocab, h)
	if cfg.HasPositions() {
		add("embeddings.position_embeddings.weight", cfg.MaxPositions, h)
	}
	if cfg.TypeVocab > 0 {
		add("embeddings.token_type_embeddings.weight", cfg.TypeVocab, h)
	}
	norm("embeddings.LayerNorm")
	if span := cfg.Disentangled.Span(); span > 0 {
		add("encoder.rel_embeddings.weight", 2*span, h)
	}
	if cfg.Disentangled.Norm {
		norm("encoder.LayerNorm")
	}
	for i := range cfg.Layers {
		layer := fmt.Sprintf("encoder.layer.%d.", i)
		for _, name := range cfg.Projections() {
			linear(layer+name, h, h)
		}
		for _, name := range cfg.PositionProjections() {
			linear(layer+name, h, h)
		}
		linear(layer+"attention.output.dense", h, h)
		norm(layer + "attention.output.LayerNorm")
		linear(layer+"intermediate.dense", f, h)
		linear(layer+"output.dense", h, f)
		norm(layer + "output.LayerNorm")
	}
	if !withClassifier {
		return specs
	}
	if cfg.ModelType == Roberta {
		linear("classifier.dense", h, h)
		linear("classifier.out_proj", cfg.NumLabels, h)
		return specs
	}
	linear("pooler.dense", h, h)
	linear("classifier", cfg.NumLabels, h)
	return specs
}

// WordEmbeddings is the canonical name of the embedding of tokens.
func (cfg Config) WordEmbeddings() string {
	if cfg.ModelType == ModernBert {
		return "embeddings.tok_embeddings.weight"
	}
	return "embeddings.word_embeddings.weight"
}

// HasPositions reports whether an embedding of absolute positions is added to
// the input.
func (cfg Config) HasPositions() bool {
	switch cfg.ModelType {
	case DebertaV2:
		return cfg.Disentangled.Absolute
	case ModernBert:
		return false
	}
	return true
}

// Projections are the canonical names of a layer's query, key and value
// projection, without the path of the layer.
func (cfg Config) Projections() []string {
	if cfg.ModelType == DebertaV2 {
		return []string{"attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"}
	}
	return []string{"attention.self.query", "attention.self.key", "attention.self.value"}
}

// PositionProjections are the canonical names of the projections of relative
// positions, the query before the key: none, one or both.
func (cfg Config) PositionProjections() []string {
	d := cfg.Disentangled
	if !d.Relative || d.SharedKeys {
		return nil
	}
	var names []string
	if d.P2C {
		names = append(names, "attention.self.pos_query_proj")
	}
	if d.C2P {
		names = append(names, "attention.self.pos_key_proj")
	}
	return names
}

// class is the class of transformers for cfg's family.
func (cfg Config) class(classifier bool) string {
	for _, name := range sortedKeys(architectures) {
		a := architectures[name]
		// A base model without any head has no prefix.
		if a.modelType == cfg.ModelType && a.classifier == classifier && (classifier || a.prefix == "") {
			return name
		}
	}
	return ""
}

// headName is the canonical name of the matrix whose rows are the labels.
func (cfg Config) headName() string {
	if cfg.ModelType == Roberta {
		return "classifier.out_proj"
	}
	return "classifier"
}

// storedName is the name under which transformers stores a canonical tensor
// in a model whose encoder has the given prefix. DeBERTa's pooler and ModernBERT's
// head are not part of their encoders.
func (cfg Config) storedName(prefix, canonical string) string {
	if strings.HasPrefix(canonical, "classifier.") || strings.HasPrefix(canonical, "head.") || cfg.ModelType == DebertaV2 && strings.HasPrefix(canonical, "pooler.") {
		return canonical
	}
	return prefix + canonical
}

// legacyName is the name of the weight or bias of a LayerNorm in checkpoints that
// were converted from TensorFlow; ok is false for any other tensor.
func legacyName(name string) (legacy string, ok bool) {
	if stem, found := strings.CutSuffix(name, ".LayerNorm.weight"); found {
		return stem + ".LayerNorm.gamma", true
	}
	if stem, found := strings.CutSuffix(name, ".LayerNorm.bias"); found {
		return stem + ".LayerNorm.beta", true
	}
	return "", false
}
