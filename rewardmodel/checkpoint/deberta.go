package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Disentangled is what DeBERTa-v2 and v3 add to a configuration: disentangled
// attention by content and by relative position (He et al. 2021, "DeBERTa",
// section 3).
type Disentangled struct {
	Relative    bool // attention uses relative positions
	Buckets     int  // distant positions share this many buckets; 0: none are shared
	MaxRelative int  // maximum distance that is distinguished, at least 1
	C2P         bool // content-to-position attention
	P2C         bool // position-to-content attention
	SharedKeys  bool // positions use the projections of the content
	Norm        bool // the embedding of relative positions is normalized
	Absolute    bool // absolute positions are also added to the input

	PoolerAct     string  // GELU, GELUTanh, ReLU or Tanh
	PoolerDropout float64 // [0,1), in training only
}

// Span is the number of relative positions on either side of 0 that have an
// embedding; the embedding has twice as many rows. It is 0 without relative
// attention.
func (d Disentangled) Span() int {
	switch {
	case !d.Relative:
		return 0
	case d.Buckets > 0:
		return d.Buckets
	}
	return d.MaxRelative
}

// debertaFile holds the fields of a DeBERTa's config.json beyond configFile.
type debertaFile struct {
	Relative      *bool          `json:"relative_attention"`
	Buckets       *int           `json:"position_buckets"`
	MaxRelative   *int           `json:"max_relative_positions"`
	AttentionType jsontext.Value `json:"pos_att_type"`
	SharedKeys    *bool          `json:"share_att_key"`
	NormRelative  *string        `json:"norm_rel_ebd"`
	Absolute      *bool          `json:"position_biased_input"`
	HeadDropout   *float64       `json:"cls_dropout"`
	PoolerSize    *int           `json:"pooler_hidden_size"`
	PoolerAct     jsontext.Value `json:"pooler_hidden_act"`
	PoolerDropout *float64       `json:"pooler_dropout"`
	ConvKernel    *int           `json:"conv_kernel_size"`
	EmbeddingSize *int           `json:"embedding_size"`
	HeadSize      *int           `json:"attention_head_size"`
}

// setDisentangled reads the fields of a DeBERTa; the others of cfg are set.
func (cfg *Config) setDisentangled(data []byte) error {
	var file debertaFile
	if err := json.Unmarshal(data, &file); err != nil {
		return fmt.Errorf("config.json: %.200s: %w", err.Error(), ErrDamaged)
	}
	switch {
	case or(file.ConvKernel, 0) > 0:
		return fmt.Errorf("config.json: conv_kernel_size is %d; a DeBERTa with a convolution (v2-xlarge, v2-xxlarge) is not supported, use a v3 model: %w", *file.ConvKernel, ErrUnsupported)
	case or(file.EmbeddingSize, cfg.HiddenSize) != cfg.HiddenSize:
		return fmt.Errorf("config.json: embedding_size %d differs from hidden_size %d, which is not supported: %w", *file.EmbeddingSize, cfg.HiddenSize, ErrUnsupported)
	case file.HeadSize != nil && *file.HeadSize*cfg.Heads != cfg.HiddenSize:
		return fmt.Errorf("config.json: attention_head_size %d times num_attention_heads is not hidden_size, which is not supported: %w", *file.HeadSize, ErrUnsupported)
	case or(file.PoolerSize, cfg.HiddenSize) != cfg.HiddenSize:
		return fmt.Errorf("config.json: pooler_hidden_size %d differs from hidden_size %d, which is not supported: %w", *file.PoolerSize, cfg.HiddenSize, ErrUnsupported)
	}
	d := Disentangled{
		Relative:      or(file.Relative, false),
		Buckets:       max(or(file.Buckets, 0), 0),
		MaxRelative:   or(file.MaxRelative, 0),
		SharedKeys:    or(file.SharedKeys, false),
		Absolute:      or(file.Absolute, true),
		PoolerDropout: or(file.PoolerDropout, 0),
	}
	if d.MaxRelative < 1 {
		d.MaxRelative = cfg.MaxPositions
	}
	if slices.Contains(parts(or(file.NormRelative, "none")), "layer_norm") {
		d.Norm = d.Relative
	}
	act, err := parseActivation("pooler_hidden_act", file.PoolerAct)
	if err != nil {
		return err
	}
	d.PoolerAct = act
	if err := d.setAttentionType(file.AttentionType); err != nil {
		return err
	}
	cfg.Disentangled = d
	cfg.ClassifierDropout = or(file.HeadDropout, cfg.HiddenDropout)
	return nil
}

// setAttentionType reads pos_att_type: a list, or names separated by a bar.
func (d *Disentangled) setAttentionType(raw jsontext.Value) error {
	var names []string
	if len(raw) > 0 && raw.Kind() == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return fmt.Errorf("config.json: pos_att_type: %.200s: %w", err.Error(), ErrDamaged)
		}
		names = parts(text)
	} else if len(raw) > 0 && json.Unmarshal(raw, &names) != nil {
		return fmt.Errorf("config.json: pos_att_type must be a list of names or a string: %w", ErrDamaged)
	}
	for _, name := range names {
		switch name {
		case "c2p":
			d.C2P = true
		case "p2c":
			d.P2C = true
		case "", "none":
		default:
			return fmt.Errorf("config.json: pos_att_type %.80q is not supported; known are c2p and p2c: %w", name, ErrUnsupported)
		}
	}
	return nil
}

// parts splits names that are separated by bars.
func parts(text string) []string {
	names := strings.Split(strings.ToLower(text), "|")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// validate checks ranges; cfg holds the rest of the configuration.
func (d Disentangled) validate(cfg *Config) error {
	if cfg.ModelType != DebertaV2 {
		return nil
	}
	switch {
	case d.MaxRelative < 1 || d.MaxRelative > maxPositions:
		return fmt.Errorf("max_relative_positions is %d; it must be 1 to %d: %w", d.MaxRelative, maxPositions, ErrDamaged)
	case d.Buckets == 1 || d.Buckets < 0 || d.Buckets > maxPositions:
		return fmt.Errorf("position_buckets is %d; it must be 2 to %d, or -1 for none: %w", d.Buckets, maxPositions, ErrDamaged)
	case d.Relative && d.Buckets > 0 && cfg.MaxPositions-1 > d.Buckets/2 && d.MaxRelative-1 <= d.Buckets/2:
		return fmt.Errorf("max_relative_positions %d leaves nothing for the outer half of %d position_buckets; it must be at least %d: %w", d.MaxRelative, d.Buckets, d.Buckets/2+2, ErrDamaged)
	case !(d.PoolerDropout >= 0 && d.PoolerDropout < 1):
		return fmt.Errorf("pooler_dropout is %v; it must be in [0,1): %w", d.PoolerDropout, ErrDamaged)
	case !slices.Contains([]string{GELU, GELUTanh, ReLU, Tanh}, d.PoolerAct):
		return fmt.Errorf("pooler_hidden_act %.80q is not supported: %w", d.PoolerAct, ErrUnsupported)
	}
	return nil
}

// fields are those of config.json that setDisentangled reads.
func (d Disentangled) fields(cfg Config) map[string]any {
	buckets, norm := -1, "none"
	if d.Buckets > 0 {
		buckets = d.Buckets
	}
	if d.Norm {
		norm = "layer_norm"
	}
	types := []string{}
	if d.P2C {
		types = append(types, "p2c")
	}
	if d.C2P {
		types = append(types, "c2p")
	}
	return map[string]any{
		"relative_attention":     d.Relative,
		"position_buckets":       buckets,
		"max_relative_positions": d.MaxRelative,
		"pos_att_type":           types,
		"share_att_key":          d.SharedKeys,
		"norm_rel_ebd":           norm,
		"position_biased_input":  d.Absolute,
		"cls_dropout":            cfg.ClassifierDropout,
		"pooler_hidden_size":     cfg.HiddenSize,
		"pooler_hidden_act":      cfg.activationName("pooler_hidden_act", d.PoolerAct),
		"pooler_dropout":         d.PoolerDropout,
	}
}
