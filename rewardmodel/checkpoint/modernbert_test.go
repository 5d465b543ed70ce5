package checkpoint

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// modernConfig returns a small ModernBERT with the members.
func modernConfig(members string) string {
	return `{"model_type":"modernbert","hidden_size":16,"num_hidden_layers":4,"num_attention_heads":4,"intermediate_size":24,
"vocab_size":96,"pad_token_id":0,"max_position_embeddings":22,` + members + `}`
}

func TestParseModernBert(t *testing.T) {
	usual := Modern{Local: []bool{false, true, true, false}, LocalAttention: 128, GlobalTheta: 160_000, LocalTheta: 10_000, HeadAct: GELU}
	changed := func(change func(m *Modern)) Modern {
		m := usual
		change(&m)
		return m
	}
	tests := []struct {
		name, members string
		want          Modern
	}{
		{"defaults", `"position_embedding_type":"sans_pos"`, usual},
		{"older", `"global_attn_every_n_layers":2,"global_rope_theta":7,"local_rope_theta":5,"rope_scaling":null`, changed(func(m *Modern) {
			m.Local, m.GlobalTheta, m.LocalTheta = []bool{false, true, false, true}, 7, 5
		})},
		{"newer", `"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],"global_attn_every_n_layers":3,
"rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":7},"sliding_attention":{"rope_theta":5}},"global_rope_theta":8,"local_attention":7`, changed(func(m *Modern) {
			m.Local, m.GlobalTheta, m.LocalTheta, m.LocalAttention = []bool{true, false, true, false}, 7, 5, 7
		})},
		{"both", `"rope_parameters":{"full_attention":{"rope_type":"default"},"sliding_attention":null},"global_rope_theta":8`, changed(func(m *Modern) { m.GlobalTheta = 8 })},
		{"biases", `"attention_bias":true,"mlp_bias":true,"norm_bias":true,"classifier_bias":true`, changed(func(m *Modern) {
			m.AttentionBias, m.MLPBias, m.NormBias, m.HeadBias = true, true, true, true
		})},
		{"head", `"classifier_pooling":"mean","classifier_activation":"tanh","embedding_dropout":0.2`, changed(func(m *Modern) {
			m.MeanPooling, m.HeadAct, m.EmbeddingDropout = true, Tanh, 0.2
		})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg, err := parseConfig([]byte(modernConfig(test.members)))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(cfg.Modern, test.want) {
				t.Errorf("got %+v, want %+v", cfg.Modern, test.want)
			}
			out, _, err := cfg.forWriting(nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := out.marshal(F32, nil)
			if err != nil {
				t.Fatal(err)
			}
			again, err := parseConfig(text)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(again.Modern, test.want) {
				t.Errorf("written and read again: %+v, want %+v", again.Modern, test.want)
			}
		})
	}
	cfg, err := parseConfig([]byte(modernConfig(`"norm_eps":1e-3,"mlp_dropout":0.1,"attention_dropout":0.2,"classifier_dropout":0.3,"hidden_activation":"relu"`)))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.LayerNormEps != 1e-3 || cfg.HiddenDropout != 0.1 || cfg.AttentionDropout != 0.2 || cfg.ClassifierDropout != 0.3 || cfg.HiddenAct != ReLU || cfg.Positions() != 22 {
		t.Errorf("got %+v", cfg)
	}
}

func TestParseModernBertRejects(t *testing.T) {
	tests := []struct {
		members string
		kind    error
		text    string
	}{
		{`"rope_scaling":{"type":"linear"}`, ErrUnsupported, "rope_scaling is set"},
		{`"rope_parameters":{"full_attention":{"rope_type":"yarn"}}`, ErrUnsupported, `rope_type "yarn"`},
		{`"rope_parameters":{"full_attention":{"rope_theta":0}}`, ErrDamaged, "rope_theta of full_attention is 0"},
		{`"rope_parameters":7`, ErrDamaged, "config.json"},
		{`"local_rope_theta":-1`, ErrDamaged, "rope_theta of sliding_attention is -1"},
		{`"layer_types":["full_attention"]`, ErrDamaged, "layer_types has 1 entries"},
		{`"layer_types":["full_attention","chunked_attention","full_attention","full_attention"]`, ErrUnsupported, `"chunked_attention"`},
		{`"global_attn_every_n_layers":0`, ErrDamaged, "global_attn_every_n_layers is 0"},
		{`"local_attention":-1`, ErrDamaged, "local_attention is -1"},
		{`"classifier_pooling":"max"`, ErrUnsupported, `classifier_pooling "max"`},
		{`"classifier_activation":"xielu"`, ErrUnsupported, `classifier_activation "xielu"`},
		{`"hidden_activation":"tanh"`, ErrUnsupported, `hidden_activation "tanh"`},
		{`"embedding_dropout":1`, ErrDamaged, "embedding_dropout is 1"},
		{`"mlp_dropout":1`, ErrDamaged, "mlp_dropout is 1"},
		{`"attention_dropout":-1`, ErrDamaged, "attention_dropout is -1"},
		{`"norm_eps":0`, ErrDamaged, "norm_eps is 0"},
	}
	for _, test := range tests {
		t.Run(test.members, func(t *testing.T) {
			_, err := parseConfig([]byte(modernConfig(test.members)))
			wantError(t, err, test.kind, test.text)
		})
	}
	_, err := parseConfig([]byte(`{"model_type":"modernbert","hidden_size":20,"num_attention_heads":4}`))
	wantError(t, err, ErrDamaged, "hidden_size 20 gives attention heads of 5")
	_, err = parseConfig([]byte(`{"model_type":"modernbert","vocab_size":96}`))
	wantError(t, err, ErrDamaged, "pad_token_id is 50283")
	_, err = parseConfig([]byte(`{"model_type":"modernbert","num_hidden_layers":1000000000}`))
	wantError(t, err, ErrDamaged, "num_hidden_layers is 1000000000")
}

// The shapes of the published encoders.
func TestModernBertSpecs(t *testing.T) {
	for name, test := range map[string]struct {
		config     string
		parameters int // of the encoder
	}{
		"ModernBERT-base": {`{"model_type":"modernbert"}`, 149_014_272},
		"Ettin 17M":       {`{"model_type":"modernbert","hidden_size":256,"num_hidden_layers":7,"num_attention_heads":4,"intermediate_size":384}`, 16_797_440},
	} {
		cfg, err := parseConfig([]byte(test.config))
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, spec := range Specs(cfg, false) {
			n := 1
			for _, d := range spec.Shape {
				n *= d
			}
			got += n
		}
		if got != test.parameters {
			t.Errorf("%s has %d parameters, want %d", name, got, test.parameters)
		}
	}
	c := mustOpen(t, filepath.Join("testdata", "modernbert-mlm"))
	if name, ok := c.Name("head.norm.weight"); !ok || name != "head.norm.weight" {
		t.Errorf("a model for masked language modeling has no head: %q", name)
	}
	if _, ok := c.Name("classifier.weight"); ok || c.HasClassifier() {
		t.Error("it has a classifier")
	}
	var names []string
	for _, spec := range Specs(c.Config, true) {
		names = append(names, spec.Name)
	}
	if slices.Contains(names, "layers.0.attn_norm.weight") || !slices.Contains(names, "layers.1.attn_norm.weight") || !slices.Contains(names, "layers.1.mlp.Wo.bias") {
		t.Errorf("%v", names)
	}
}
