package checkpoint

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The supported model types.
const (
	Roberta   = "roberta"
	Bert      = "bert"
	DebertaV2 = "deberta-v2" // v3 as well
	// ModernBert includes the Ettin encoders.
	ModernBert = "modernbert"
)

// The activations that an encoder must support, with one name each.
const (
	// GELU is x*Phi(x) with the error function.
	GELU = "gelu"
	// GELUTanh is the tanh approximation of GELU.
	GELUTanh = "gelu_tanh"
	// ReLU is max(x, 0).
	ReLU = "relu"
	// Tanh is the hyperbolic tangent, for poolers only.
	Tanh = "tanh"
)

// Bounds of a configuration. They are far above every published model and keep
// all products of dimensions within an int64.
const (
	maxHidden       = 1 << 16
	maxIntermediate = 1 << 18
	maxLayers       = 1 << 10
	maxVocab        = 1 << 24
	maxPositions    = 1 << 20
	maxTypeVocab    = 1 << 16
	maxLabels       = 1 << 16
)

// Config is the part of config.json that an encoder needs. In a Config that was
// built for Write, Architecture may be empty; with two labels, empty Labels mean
// that the violation comes first. A dropout of 0 means none.
type Config struct {
	Architecture string // class in transformers, e.g. "RobertaForSequenceClassification"
	ModelType    string // Roberta, Bert, DebertaV2 or ModernBert

	HiddenSize   int // width of a token's vector
	Layers       int
	Heads        int // attention heads; divides HiddenSize
	Intermediate int // width of the feed-forward layer; for a ModernBERT, after its gate
	Vocab        int
	MaxPositions int // rows of the position embedding; for a DeBERTa or ModernBERT, the maximum length of a sequence
	TypeVocab    int
	PadID        int // RoBERTa numbers positions from PadID+1

	LayerNormEps float64
	HiddenAct    string // GELU, GELUTanh or ReLU

	HiddenDropout     float64 // [0,1), in training only
	AttentionDropout  float64
	ClassifierDropout float64

	Disentangled Disentangled // DebertaV2 only
	Modern       Modern       // ModernBert only

	NumLabels int
	Labels    []string // by index; len is NumLabels

	raw map[string]jsontext.Value // config.json as read, so that Write keeps unknown fields
}

// architecture describes how a transformers class stores its encoder.
type architecture struct {
	modelType  string
	prefix     string
	classifier bool
}

// architectures are the supported transformers classes.
var architectures = map[string]architecture{
	"RobertaForSequenceClassification": {Roberta, "roberta.", true},
	"RobertaForMaskedLM":               {Roberta, "roberta.", false},
	"RobertaModel":                     {Roberta, "", false},
	"BertForSequenceClassification":    {Bert, "bert.", true},
	"BertForMaskedLM":                  {Bert, "bert.", false},
	"BertForPreTraining":               {Bert, "bert.", false},
	"BertModel":                        {Bert, "", false},

	"DebertaV2ForSequenceClassification": {DebertaV2, "deberta.", true},
	"DebertaV2ForMaskedLM":               {DebertaV2, "deberta.", false},
	"DebertaV2Model":                     {DebertaV2, "", false},

	"ModernBertForSequenceClassification": {ModernBert, "model.", true},
	"ModernBertForMaskedLM":               {ModernBert, "model.", false},
	"ModernBertModel":                     {ModernBert, "", false},
}

// family describes how the model types differ: the prefix of a stored encoder and
// the defaults of transformers for config.json.
type family struct {
	prefix                      string
	hidden, layers, heads, feed int
	vocab, positions            int
	types, pad                  int
	eps                         float64
}

var families = map[string]family{
	Roberta:    {"roberta.", 768, 12, 12, 3072, 50265, 512, 2, 1, 1e-12},
	Bert:       {"bert.", 768, 12, 12, 3072, 30522, 512, 2, 0, 1e-12},
	DebertaV2:  {"deberta.", 1536, 24, 24, 6144, 128100, 512, 0, 0, 1e-7},
	ModernBert: {"model.", 768, 22, 12, 1152, 50368, 8192, 0, 50283, 1e-5},
}

// familyNames lists the supported model types for messages.
const familyNames = `it must be "roberta", "bert", "deberta-v2" or "modernbert"`

// activations maps the names of transformers to those of this package.
var activations = map[string]string{
	"gelu":              GELU,
	"gelu_python":       GELU,
	"gelu_new":          GELUTanh,
	"gelu_fast":         GELUTanh,
	"gelu_pytorch_tanh": GELUTanh,
	"relu":              ReLU,
	"tanh":              Tanh,
}

// configFile is config.json; a nil pointer is an absent or null field, for
// which transformers has a default.
type configFile struct {
	Architectures    []string                  `json:"architectures"`
	ModelType        *string                   `json:"model_type"`
	HiddenSize       *int                      `json:"hidden_size"`
	Layers           *int                      `json:"num_hidden_layers"`
	Heads            *int                      `json:"num_attention_heads"`
	Intermediate     *int                      `json:"intermediate_size"`
	Vocab            *int                      `json:"vocab_size"`
	MaxPositions     *int                      `json:"max_position_embeddings"`
	TypeVocab        *int                      `json:"type_vocab_size"`
	PadID            *int                      `json:"pad_token_id"`
	Eps              *float64                  `json:"layer_norm_eps"`
	HiddenAct        jsontext.Value            `json:"hidden_act"`
	HiddenDropout    *float64                  `json:"hidden_dropout_prob"`
	AttentionDropout *float64                  `json:"attention_probs_dropout_prob"`
	HeadDropout      *float64                  `json:"classifier_dropout"`
	NumLabels        *int                      `json:"num_labels"`
	ID2Label         map[string]jsontext.Value `json:"id2label"`
	Position         *string                   `json:"position_embedding_type"`
	IsDecoder        *bool                     `json:"is_decoder"`
	CrossAttention   *bool                     `json:"add_cross_attention"`
	Pruned           map[string]jsontext.Value `json:"pruned_heads"`
	Quantization     jsontext.Value            `json:"quantization_config"`
}

// parseConfig reads a config.json. Unknown fields are kept but not interpreted.
// The architecture stays empty when the file names none.
func parseConfig(data []byte) (Config, error) {
	var file configFile
	if err := json.Unmarshal(data, &file); err != nil {
		return Config{}, fmt.Errorf("config.json: %.200s: %w", err.Error(), ErrDamaged)
	}
	cfg := Config{}
	if err := json.Unmarshal(data, &cfg.raw); err != nil {
		return Config{}, fmt.Errorf("config.json: %.200s: %w", err.Error(), ErrDamaged)
	}
	if err := cfg.setFamily(file); err != nil {
		return Config{}, err
	}

	usual := families[cfg.ModelType]
	cfg.HiddenSize = or(file.HiddenSize, usual.hidden)
	cfg.Layers = or(file.Layers, usual.layers)
	cfg.Heads = or(file.Heads, usual.heads)
	cfg.Intermediate = or(file.Intermediate, usual.feed)
	cfg.Vocab = or(file.Vocab, usual.vocab)
	cfg.MaxPositions = or(file.MaxPositions, usual.positions)
	cfg.TypeVocab = or(file.TypeVocab, usual.types)
	cfg.PadID = or(file.PadID, usual.pad)
	cfg.LayerNormEps = or(file.Eps, usual.eps)
	cfg.HiddenDropout = or(file.HiddenDropout, 0.1)
	cfg.AttentionDropout = or(file.AttentionDropout, 0.1)
	cfg.ClassifierDropout = or(file.HeadDropout, cfg.HiddenDropout)

	act, err := parseActivation("hidden_act", file.HiddenAct)
	if err != nil {
		return Config{}, err
	}
	cfg.HiddenAct = act
	switch cfg.ModelType {
	case DebertaV2:
		err = cfg.setDisentangled(data)
	case ModernBert:
		err = cfg.setModern(data)
	}
	if err != nil {
		return Config{}, err
	}
	if err := cfg.setLabels(file); err != nil {
		return Config{}, err
	}
	if err := cfg.refuseVariants(file); err != nil {
		return Config{}, err
	}
	if err := cfg.validate(); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	return cfg, nil
}

func or[T any](value *T, fallback T) T {
	if value == nil {
		return fallback
	}
	return *value
}

// setFamily sets the model type and the architecture.
func (cfg *Config) setFamily(file configFile) error {
	cfg.ModelType = or(file.ModelType, "")
	if len(file.Architectures) > 0 {
		cfg.Architecture = file.Architectures[0]
		known, ok := architectures[cfg.Architecture]
		if !ok {
			return fmt.Errorf("config.json: architectures: %.80q is not supported; use a RoBERTa, BERT, DeBERTa-v2 or ModernBERT encoder or sequence classifier: %w", cfg.Architecture, ErrUnsupported)
		}
		if cfg.ModelType == "" {
			cfg.ModelType = known.modelType
		}
		if _, runs := families[cfg.ModelType]; runs && known.modelType != cfg.ModelType {
			return fmt.Errorf("config.json: model_type %.80q does not fit architectures %.80q: %w", cfg.ModelType, cfg.Architecture, ErrDamaged)
		}
	}
	if cfg.ModelType == "" {
		return fmt.Errorf("config.json: model_type is missing; %s: %w", familyNames, ErrUnsupported)
	}
	if _, runs := families[cfg.ModelType]; !runs {
		return fmt.Errorf("config.json: model_type %.80q is not supported; %s: %w", cfg.ModelType, familyNames, ErrUnsupported)
	}
	return nil
}

// parseActivation reads the field of an activation. Only a pooler may have tanh.
func parseActivation(field string, raw jsontext.Value) (string, error) {
	name := "gelu"
	if len(raw) > 0 && raw.Kind() != 'n' {
		if err := json.Unmarshal(raw, &name); err != nil {
			return "", fmt.Errorf("config.json: %s must be a string: %w", field, ErrDamaged)
		}
	}
	act, ok := activations[name]
	if hidden := strings.HasPrefix(field, "hidden_"); !ok || act == Tanh && hidden {
		return "", fmt.Errorf("config.json: %s %.80q is not supported; known are gelu, gelu_new, gelu_fast, gelu_pytorch_tanh and relu: %w", field, name, ErrUnsupported)
	}
	return act, nil
}

// setLabels reads id2label and num_labels. As in transformers, two unnamed labels
// are the default, and num_labels takes precedence over an id2label of another
// length.
func (cfg *Config) setLabels(file configFile) error {
	cfg.NumLabels = or(file.NumLabels, len(file.ID2Label))
	if file.NumLabels == nil && len(file.ID2Label) == 0 {
		cfg.NumLabels = 2
	}
	if cfg.NumLabels < 1 || cfg.NumLabels > maxLabels {
		return fmt.Errorf("config.json: num_labels is %d; it must be 1 to %d: %w", cfg.NumLabels, maxLabels, ErrDamaged)
	}
	cfg.Labels = make([]string, cfg.NumLabels)
	for i := range cfg.Labels {
		cfg.Labels[i] = "LABEL_" + strconv.Itoa(i)
	}
	if len(file.ID2Label) != cfg.NumLabels {
		return nil
	}
	for key, value := range file.ID2Label {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= cfg.NumLabels || strconv.Itoa(i) != key {
			return fmt.Errorf("config.json: id2label: key %.80q is not one of 0 to %d: %w", key, cfg.NumLabels-1, ErrDamaged)
		}
		var name string
		if json.Unmarshal(value, &name) != nil {
			name = string(bytes.TrimSpace(value)) // a number or a boolean as label
		}
		cfg.Labels[i] = name
	}
	return nil
}

// refuseVariants rejects settings that change the computation in ways that the
// encoder does not implement.
func (cfg *Config) refuseVariants(file configFile) error {
	unsupported := func(format string, args ...any) error {
		return fmt.Errorf("config.json: "+format+": %w", append(args, ErrUnsupported)...)
	}
	switch {
	case cfg.ModelType != ModernBert && file.Position != nil && *file.Position != "absolute": // ModernBERT ignores it
		return unsupported("position_embedding_type %.80q is not supported; it must be \"absolute\"", *file.Position)
	case or(file.IsDecoder, false):
		return unsupported("is_decoder is true; only encoders are supported")
	case or(file.CrossAttention, false):
		return unsupported("add_cross_attention is true; only encoders are supported")
	case len(file.Pruned) > 0:
		return unsupported("pruned_heads is not empty; save the model with whole heads")
	case set(file.Quantization):
		return checkQuantization(file.Quantization)
	}
	return nil
}

// validate checks ranges and how the fields fit together.
func (cfg *Config) validate() error {
	minTypes := 1
	if cfg.ModelType == DebertaV2 || cfg.ModelType == ModernBert {
		minTypes = 0
	}
	for _, field := range []struct {
		name             string
		value, low, high int
	}{
		{"hidden_size", cfg.HiddenSize, 1, maxHidden},
		{"num_hidden_layers", cfg.Layers, 1, maxLayers},
		{"num_attention_heads", cfg.Heads, 1, maxHidden},
		{"intermediate_size", cfg.Intermediate, 1, maxIntermediate},
		{"vocab_size", cfg.Vocab, 1, maxVocab},
		{"max_position_embeddings", cfg.MaxPositions, 1, maxPositions},
		{"type_vocab_size", cfg.TypeVocab, minTypes, maxTypeVocab},
		{"num_labels", cfg.NumLabels, 1, maxLabels},
	} {
		if field.value < field.low || field.value > field.high {
			return fmt.Errorf("%s is %d; it must be %d to %d: %w", field.name, field.value, field.low, field.high, ErrDamaged)
		}
	}
	if cfg.HiddenSize%cfg.Heads != 0 {
		return fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d: %w", cfg.HiddenSize, cfg.Heads, ErrDamaged)
	}
	if cfg.PadID < 0 || cfg.PadID >= cfg.Vocab {
		return fmt.Errorf("pad_token_id is %d; it must be 0 to vocab_size-1: %w", cfg.PadID, ErrDamaged)
	}
	if cfg.Positions() < 3 {
		return fmt.Errorf("max_position_embeddings %d leaves room for %d tokens; at least 3 are needed: %w", cfg.MaxPositions, cfg.Positions(), ErrDamaged)
	}
	if !(cfg.LayerNormEps > 0 && cfg.LayerNormEps <= 1) {
		return fmt.Errorf("%s is %v; it must be above 0 and at most 1: %w", cfg.fieldName("layer_norm_eps"), cfg.LayerNormEps, ErrDamaged)
	}
	for _, dropout := range []struct {
		name string
		p    float64
	}{
		{"hidden_dropout_prob", cfg.HiddenDropout},
		{"attention_probs_dropout_prob", cfg.AttentionDropout},
		{"classifier_dropout", cfg.ClassifierDropout},
	} {
		if !(dropout.p >= 0 && dropout.p < 1) {
			return fmt.Errorf("%s is %v; it must be in [0,1): %w", cfg.fieldName(dropout.name), dropout.p, ErrDamaged)
		}
	}
	if cfg.HiddenAct != GELU && cfg.HiddenAct != GELUTanh && cfg.HiddenAct != ReLU {
		return fmt.Errorf("%s %.80q is not supported: %w", cfg.fieldName("hidden_act"), cfg.HiddenAct, ErrUnsupported)
	}
	if err := cfg.Disentangled.validate(cfg); err != nil {
		return err
	}
	return cfg.Modern.validate(cfg)
}

// Positions is the maximum length of a sequence, including special tokens.
// RoBERTa does not use the rows up to the padding id.
func (cfg Config) Positions() int {
	if cfg.ModelType == Roberta {
		return cfg.MaxPositions - cfg.PadID - 1
	}
	return cfg.MaxPositions
}

// index returns the index of a label, or -1 when there is none.
func (cfg Config) index(label string) int {
	return slices.IndexFunc(cfg.Labels, func(name string) bool {
		return strings.EqualFold(strings.TrimSpace(name), label)
	})
}

// violation is the index of the violation among two labels, which may have the name
// of their aspect before a colon. One matching name determines both; two
// contradictory names are ignored.
func (cfg Config) violation() int {
	kinds := Config{Labels: make([]string, len(cfg.Labels))}
	for i, label := range cfg.Labels {
		kinds.Labels[i] = label[strings.LastIndexByte(label, ':')+1:]
	}
	if kinds.index(violationLabel) == 1 || kinds.index(violationLabel) < 0 && kinds.index(compliantLabel) == 0 {
		return 1
	}
	return 0
}
