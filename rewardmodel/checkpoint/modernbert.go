package checkpoint

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Modern is what ModernBERT adds to a configuration (Warner et al. 2024, "Smarter,
// Better, Faster, Longer"): rotary positions, attention within a window in most
// layers, and a gated feed-forward layer.
type Modern struct {
	Local          []bool // by layer: attention only to tokens within Window
	LocalAttention int    // the window's size in tokens, both sides together
	GlobalTheta    float64
	LocalTheta     float64 // base of the rotary positions, by kind of layer

	AttentionBias, MLPBias, NormBias, HeadBias bool

	MeanPooling bool   // the classifier reads the mean of all tokens, not the first
	HeadAct     string // of the classifier: GELU, GELUTanh, ReLU or Tanh

	EmbeddingDropout float64 // [0,1), in training only
}

// Window is the maximum distance of two tokens that attend to each other in a local
// layer.
func (m Modern) Window() int { return m.LocalAttention / 2 }

// The kinds of attention in layer_types.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// modernFile holds the fields of a ModernBERT's config.json beyond configFile.
type modernFile struct {
	Act              jsontext.Value           `json:"hidden_activation"`
	Eps              *float64                 `json:"norm_eps"`
	LayerTypes       []string                 `json:"layer_types"`
	GlobalEvery      *int                     `json:"global_attn_every_n_layers"`
	Rope             map[string]*ropeSettings `json:"rope_parameters"`
	RopeScaling      jsontext.Value           `json:"rope_scaling"`
	GlobalTheta      *float64                 `json:"global_rope_theta"`
	LocalTheta       *float64                 `json:"local_rope_theta"`
	LocalAttention   *int                     `json:"local_attention"`
	AttentionBias    *bool                    `json:"attention_bias"`
	MLPBias          *bool                    `json:"mlp_bias"`
	NormBias         *bool                    `json:"norm_bias"`
	HeadBias         *bool                    `json:"classifier_bias"`
	Pooling          *string                  `json:"classifier_pooling"`
	HeadAct          jsontext.Value           `json:"classifier_activation"`
	EmbeddingDropout *float64                 `json:"embedding_dropout"`
	AttentionDropout *float64                 `json:"attention_dropout"`
	MLPDropout       *float64                 `json:"mlp_dropout"`
	HeadDropout      *float64                 `json:"classifier_dropout"`
}

// ropeSettings are those of the rotary positions of one kind of layer.
type ropeSettings struct {
	Type  *string  `json:"rope_type"`
	Theta *float64 `json:"rope_theta"`
}

// setModern reads the fields of a ModernBERT, and those of cfg that have other names
// there; the others are set.
func (cfg *Config) setModern(data []byte) error {
	var file modernFile
	if err := json.Unmarshal(data, &file); err != nil {
		return fmt.Errorf("config.json: %.200s: %w", err.Error(), ErrDamaged)
	}
	if len(file.RopeScaling) > 0 && file.RopeScaling.Kind() != 'n' {
		return fmt.Errorf("config.json: rope_scaling is set, which is not supported; use a model with plain rotary positions: %w", ErrUnsupported)
	}
	m := Modern{
		LocalAttention:   or(file.LocalAttention, 128),
		AttentionBias:    or(file.AttentionBias, false),
		MLPBias:          or(file.MLPBias, false),
		NormBias:         or(file.NormBias, false),
		HeadBias:         or(file.HeadBias, false),
		EmbeddingDropout: or(file.EmbeddingDropout, 0),
	}
	switch pooling := or(file.Pooling, "cls"); pooling {
	case "cls":
	case "mean":
		m.MeanPooling = true
	default:
		return fmt.Errorf("config.json: classifier_pooling %.80q is not supported; it must be \"cls\" or \"mean\": %w", pooling, ErrUnsupported)
	}
	var err error
	if m.GlobalTheta, err = file.theta(fullAttention, or(file.GlobalTheta, 160_000)); err != nil {
		return err
	}
	if m.LocalTheta, err = file.theta(slidingAttention, or(file.LocalTheta, 10_000)); err != nil {
		return err
	}
	if m.Local, err = file.local(cfg.Layers); err != nil {
		return err
	}
	if m.HeadAct, err = parseActivation("classifier_activation", file.HeadAct); err != nil {
		return err
	}
	if cfg.HiddenAct, err = parseActivation("hidden_activation", file.Act); err != nil {
		return err
	}
	cfg.LayerNormEps = or(file.Eps, 1e-5)
	cfg.TypeVocab = 0
	cfg.HiddenDropout = or(file.MLPDropout, 0)
	cfg.AttentionDropout = or(file.AttentionDropout, 0)
	cfg.ClassifierDropout = or(file.HeadDropout, 0)
	cfg.Modern = m
	return nil
}

// theta is the base of the rotary positions of a kind of layer.
func (file modernFile) theta(kind string, older float64) (float64, error) {
	settings := file.Rope[kind]
	if settings == nil {
		return older, nil
	}
	if name := or(settings.Type, "default"); name != "default" {
		return 0, fmt.Errorf("config.json: rope_type %.80q of %s is not supported; it must be \"default\": %w", name, kind, ErrUnsupported)
	}
	return or(settings.Theta, older), nil
}

// local reads which layers attend within the window. Older files only have the
// distance of the layers that do not.
func (file modernFile) local(layers int) ([]bool, error) {
	local := make([]bool, min(max(layers, 0), maxLayers)) // validate has not checked it yet
	if file.LayerTypes == nil {
		every := or(file.GlobalEvery, 3)
		if every < 1 {
			return nil, fmt.Errorf("config.json: global_attn_every_n_layers is %d; it must be at least 1: %w", every, ErrDamaged)
		}
		for i := range local {
			local[i] = i%every != 0
		}
		return local, nil
	}
	if len(file.LayerTypes) != layers {
		return nil, fmt.Errorf("config.json: layer_types has %d entries, but num_hidden_layers is %d: %w", len(file.LayerTypes), layers, ErrDamaged)
	}
	for i, kind := range file.LayerTypes {
		switch kind {
		case slidingAttention:
			local[min(i, len(local)-1)] = true
		case fullAttention:
		default:
			return nil, fmt.Errorf("config.json: layer_types: %.80q is not supported; known are %s and %s: %w", kind, fullAttention, slidingAttention, ErrUnsupported)
		}
	}
	return local, nil
}

// modernNames are the names of fields in a ModernBERT's config.json where they differ
// from those of the other families.
var modernNames = map[string]string{
	"hidden_act":                   "hidden_activation",
	"layer_norm_eps":               "norm_eps",
	"hidden_dropout_prob":          "mlp_dropout",
	"attention_probs_dropout_prob": "attention_dropout",
}

// fieldName is the name of a field in cfg's config.json.
func (cfg Config) fieldName(name string) string {
	if other, ok := modernNames[name]; ok && cfg.ModelType == ModernBert {
		return other
	}
	return name
}

// validate checks ranges; cfg holds the rest of the configuration.
func (m Modern) validate(cfg *Config) error {
	if cfg.ModelType != ModernBert {
		return nil
	}
	if size := cfg.HiddenSize / cfg.Heads; size%2 != 0 {
		return fmt.Errorf("hidden_size %d gives attention heads of %d; rotary positions need an even size: %w", cfg.HiddenSize, size, ErrDamaged)
	}
	if len(m.Local) != cfg.Layers {
		return fmt.Errorf("layer_types has %d entries, but num_hidden_layers is %d: %w", len(m.Local), cfg.Layers, ErrDamaged)
	}
	if m.LocalAttention < 0 || m.LocalAttention > maxPositions {
		return fmt.Errorf("local_attention is %d; it must be 0 to %d: %w", m.LocalAttention, maxPositions, ErrDamaged)
	}
	for name, theta := range map[string]float64{fullAttention: m.GlobalTheta, slidingAttention: m.LocalTheta} {
		if !(theta >= 1 && theta <= 1e30) {
			return fmt.Errorf("rope_theta of %s is %v; it must be 1 to 1e30: %w", name, theta, ErrDamaged)
		}
	}
	if !(m.EmbeddingDropout >= 0 && m.EmbeddingDropout < 1) {
		return fmt.Errorf("embedding_dropout is %v; it must be in [0,1): %w", m.EmbeddingDropout, ErrDamaged)
	}
	if !slices.Contains([]string{GELU, GELUTanh, ReLU, Tanh}, m.HeadAct) {
		return fmt.Errorf("classifier_activation %.80q is not supported: %w", m.HeadAct, ErrUnsupported)
	}
	return nil
}

// fields are those of config.json that setModern reads, under the names of
// transformers 5 and, where these differ, of version 4.
func (m Modern) fields(cfg Config) map[string]any {
	kinds, pooling := make([]string, len(m.Local)), "cls"
	for i, local := range m.Local {
		if kinds[i] = fullAttention; local {
			kinds[i] = slidingAttention
		}
	}
	if m.MeanPooling {
		pooling = "mean"
	}
	rope := func(theta float64) map[string]any { return map[string]any{"rope_type": "default", "rope_theta": theta} }
	return map[string]any{
		"hidden_activation":     cfg.activationName("hidden_activation", cfg.HiddenAct),
		"norm_eps":              cfg.LayerNormEps,
		"layer_types":           kinds,
		"rope_parameters":       map[string]any{fullAttention: rope(m.GlobalTheta), slidingAttention: rope(m.LocalTheta)},
		"global_rope_theta":     m.GlobalTheta,
		"local_rope_theta":      m.LocalTheta,
		"local_attention":       m.LocalAttention,
		"attention_bias":        m.AttentionBias,
		"mlp_bias":              m.MLPBias,
		"norm_bias":             m.NormBias,
		"classifier_bias":       m.HeadBias,
		"classifier_pooling":    pooling,
		"classifier_activation": cfg.activationName("classifier_activation", m.HeadAct),
		"embedding_dropout":     m.EmbeddingDropout,
		"attention_dropout":     cfg.AttentionDropout,
		"mlp_dropout":           cfg.HiddenDropout,
	}
}

// modernSpecs are the tensors of a ModernBERT; see Specs. The first layer has no
// norm before its attention, because that of the embeddings precedes it.
func (cfg Config) modernSpecs(withClassifier bool) []TensorSpec {
	h, f, m := cfg.HiddenSize, cfg.Intermediate, cfg.Modern
	var specs []TensorSpec
	add := func(name string, bias bool, shape ...int) {
		specs = append(specs, TensorSpec{Name: name + ".weight", Shape: shape})
		if bias {
			specs = append(specs, TensorSpec{Name: name + ".bias", Shape: shape[:1]})
		}
	}
	add("embeddings.tok_embeddings", false, cfg.Vocab, h)
	add("embeddings.norm", m.NormBias, h)
	for i := range cfg.Layers {
		layer := fmt.Sprintf("layers.%d.", i)
		if i > 0 {
			add(layer+"attn_norm", m.NormBias, h)
		}
		add(layer+"attn.Wqkv", m.AttentionBias, 3*h, h)
		add(layer+"attn.Wo", m.AttentionBias, h, h)
		add(layer+"mlp_norm", m.NormBias, h)
		add(layer+"mlp.Wi", m.MLPBias, 2*f, h)
		add(layer+"mlp.Wo", m.MLPBias, h, f)
	}
	add("final_norm", m.NormBias, h)
	if withClassifier {
		add("head.dense", m.HeadBias, h, h)
		add("head.norm", m.NormBias, h)
		add("classifier", true, cfg.NumLabels, h)
	}
	return specs
}
