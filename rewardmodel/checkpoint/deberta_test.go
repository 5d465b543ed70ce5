package checkpoint

import (
	"path/filepath"
	"slices"
	"testing"
)

// debertaConfig returns tinyConfig as a DeBERTa, with the members.
func debertaConfig(members string) string {
	return `{"model_type":"deberta-v2","hidden_size":16,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":24,
"vocab_size":96,"max_position_embeddings":22,` + members + `}`
}

func TestParseDeberta(t *testing.T) {
	const relative = `"relative_attention":true,"pos_att_type":`
	tests := []struct {
		name, members string
		want          Disentangled
		span          int
	}{
		{"defaults", `"a":0`, Disentangled{MaxRelative: 22, Absolute: true, PoolerAct: GELU}, 0},
		{"text", relative + `"P2C | c2p","position_buckets":8`, Disentangled{Relative: true, Buckets: 8, MaxRelative: 22, C2P: true, P2C: true, Absolute: true, PoolerAct: GELU}, 8},
		{"list", relative + `["c2p"],"position_buckets":-1,"max_relative_positions":6`, Disentangled{Relative: true, MaxRelative: 6, C2P: true, Absolute: true, PoolerAct: GELU}, 6},
		{"none", relative + `null,"norm_rel_ebd":"LAYER_NORM|x","position_biased_input":false`, Disentangled{Relative: true, MaxRelative: 22, Norm: true, PoolerAct: GELU}, 22},
		{"pooler", relative + `"none","pooler_hidden_act":"tanh","pooler_dropout":0.2,"pooler_hidden_size":16,"share_att_key":true`, Disentangled{Relative: true, MaxRelative: 22, SharedKeys: true, Absolute: true, PoolerAct: Tanh, PoolerDropout: 0.2}, 22},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg, err := parseConfig([]byte(debertaConfig(test.members)))
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Disentangled != test.want || cfg.Disentangled.Span() != test.span || cfg.LayerNormEps != 1e-7 {
				t.Errorf("got %+v, span %d", cfg.Disentangled, cfg.Disentangled.Span())
			}
		})
	}
}

func TestParseDebertaRejects(t *testing.T) {
	tests := []struct {
		members string
		kind    error
		text    string
	}{
		{`"conv_kernel_size":3`, ErrUnsupported, "conv_kernel_size is 3"},
		{`"embedding_size":8`, ErrUnsupported, "embedding_size 8"},
		{`"attention_head_size":8`, ErrUnsupported, "attention_head_size 8"},
		{`"pooler_hidden_size":8`, ErrUnsupported, "pooler_hidden_size 8"},
		{`"pos_att_type":"p2p"`, ErrUnsupported, `pos_att_type "p2p"`},
		{`"pos_att_type":7`, ErrDamaged, "pos_att_type must be"},
		{`"pooler_hidden_act":"xielu"`, ErrUnsupported, `pooler_hidden_act "xielu"`},
		{`"hidden_act":"tanh"`, ErrUnsupported, `hidden_act "tanh"`},
		{`"pooler_dropout":1`, ErrDamaged, "pooler_dropout is 1"},
		{`"position_buckets":1`, ErrDamaged, "position_buckets is 1"},
		{`"position_buckets":2000000`, ErrDamaged, "position_buckets is 2000000"},
		{`"max_relative_positions":2000000`, ErrDamaged, "max_relative_positions is 2000000"},
		{`"relative_attention":true,"position_buckets":16,"max_relative_positions":9`, ErrDamaged, "it must be at least 10"},
		{`"relative_attention":"yes"`, ErrDamaged, "config.json"},
		{`"type_vocab_size":-1`, ErrDamaged, "type_vocab_size is -1"},
	}
	for _, test := range tests {
		t.Run(test.members, func(t *testing.T) {
			_, err := parseConfig([]byte(debertaConfig(test.members)))
			wantError(t, err, test.kind, test.text)
		})
	}
}

// v3 has the projections of the content, the relative embedding and its norm, and no
// absolute positions.
func TestDebertaSpecs(t *testing.T) {
	names := func(dir string) []string {
		var list []string
		for _, spec := range Specs(mustOpen(t, filepath.Join("testdata", dir)).Config, true) {
			list = append(list, spec.Name)
		}
		return list
	}
	v3 := names("deberta-v3")
	for _, name := range []string{"encoder.rel_embeddings.weight", "encoder.LayerNorm.bias", "encoder.layer.1.attention.self.key_proj.weight", "pooler.dense.weight"} {
		if !slices.Contains(v3, name) {
			t.Errorf("v3 has no %s", name)
		}
	}
	for _, name := range []string{"embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight", "encoder.layer.0.attention.self.pos_key_proj.weight"} {
		if slices.Contains(v3, name) {
			t.Errorf("v3 has %s", name)
		}
		if !slices.Contains(names("deberta-v2"), name) {
			t.Errorf("v2 has no %s", name)
		}
	}
}
