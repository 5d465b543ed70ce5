package checkpoint

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
)

// forWriting returns cfg as the sequence classifier that Write stores, with the
// labels in the documented order: violation, compliant, for each aspect in turn. A
// single logit is that of compliant. Row i of its head is row rows[i] of cfg's; nil
// rows are those of cfg.
func (cfg Config) forWriting(aspects []Aspect) (out Config, rows []int, err error) {
	if _, runs := families[cfg.ModelType]; !runs {
		return Config{}, nil, fmt.Errorf("model_type %q cannot be written; %s: %w", cfg.ModelType, familyNames, ErrUnsupported)
	}
	out = cfg
	out.Architecture = cfg.class(true)
	switch {
	case cfg.NumLabels == 1 || cfg.NumLabels == 2:
		out.Labels = AspectLabels([]string{rewardmodel.DefaultAspect})[2-cfg.NumLabels:]
		if cfg.NumLabels == 2 && cfg.violation() == 1 {
			rows = []int{1, 0}
		}
	case len(aspects) > 1 && 2*len(aspects) == cfg.NumLabels:
		found, err := cfg.labelRows(aspects)
		if err != nil {
			return Config{}, nil, err
		}
		var names []string
		for i, a := range aspects {
			names, rows = append(names, a.Name), append(rows, found[i].Violation, found[i].Compliant)
		}
		out.Labels = AspectLabels(names)
	default:
		return Config{}, nil, fmt.Errorf("num_labels is %d; a reward model has one or two labels, or two for each of its %d aspects: %w", cfg.NumLabels, len(aspects), ErrUnsupported)
	}
	return out, rows, out.validate()
}

// marshal renders config.json: the file as read, without the fields that describe
// its origin, overwritten by every field of cfg. quantized is nil for weights that are all floats.
func (cfg Config) marshal(dtype DType, quantized *quantization) ([]byte, error) {
	out := map[string]any{}
	var family string
	if raw, ok := cfg.raw["model_type"]; ok {
		_ = json.Unmarshal(raw, &family) // not a string: another family
	}
	if family == "" || family == cfg.ModelType {
		for name, value := range cfg.raw {
			out[name] = value
		}
	}
	for _, name := range []string{"num_labels", "_name_or_path", "auto_map", "problem_type", "quantization_config"} {
		delete(out, name)
	}

	names, indices := map[string]string{}, map[string]int{}
	for i, label := range cfg.Labels {
		names[strconv.Itoa(i)] = label
		indices[label] = i
	}
	maps.Copy(out, map[string]any{
		"architectures":                []string{cfg.Architecture},
		"model_type":                   cfg.ModelType,
		"hidden_size":                  cfg.HiddenSize,
		"num_hidden_layers":            cfg.Layers,
		"num_attention_heads":          cfg.Heads,
		"intermediate_size":            cfg.Intermediate,
		"vocab_size":                   cfg.Vocab,
		"max_position_embeddings":      cfg.MaxPositions,
		"type_vocab_size":              cfg.TypeVocab,
		"pad_token_id":                 cfg.PadID,
		"layer_norm_eps":               cfg.LayerNormEps,
		"hidden_act":                   cfg.activationName("hidden_act", cfg.HiddenAct),
		"hidden_dropout_prob":          cfg.HiddenDropout,
		"attention_probs_dropout_prob": cfg.AttentionDropout,
		"classifier_dropout":           cfg.ClassifierDropout,
		"id2label":                     names,
		"label2id":                     indices,
		"dtype":                        dtype.torchName(),
		"torch_dtype":                  dtype.torchName(), // the name before transformers 4.56
	})
	if quantized != nil {
		out["quantization_config"] = quantized
	}
	if cfg.NumLabels > 2 { // one independent pair per aspect
		out["problem_type"] = "multi_label_classification"
	}
	switch cfg.ModelType {
	case DebertaV2:
		delete(out, "classifier_dropout")
		maps.Copy(out, cfg.Disentangled.fields(cfg))
	case ModernBert:
		delete(out, "type_vocab_size")
		for name := range modernNames {
			delete(out, name)
		}
		maps.Copy(out, cfg.Modern.fields(cfg))
	}
	return marshalFile(out)
}

// activationName is the name of an activation in the file as read, or else the name in
// transformers.
func (cfg Config) activationName(field, act string) string {
	var name string
	if raw, ok := cfg.raw[field]; ok && json.Unmarshal(raw, &name) == nil && activations[name] == act {
		return name
	}
	if act == GELUTanh {
		return "gelu_pytorch_tanh"
	}
	return act
}

// marshalFile renders indented JSON with names in a fixed order.
func marshalFile(v any) ([]byte, error) {
	data, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}
