package checkpoint

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const tinyConfig = `{"architectures":["BertForSequenceClassification"],"model_type":"bert","hidden_size":16,
"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":24,"vocab_size":96,"max_position_embeddings":22}`

// with adds members to tinyConfig and replaces those of the same name.
func with(members string) string {
	base := tinyConfig
	name, _, _ := strings.Cut(members, ":")
	if i := strings.Index(base, name+":"); i >= 0 {
		rest := base[i:]
		end := strings.IndexAny(rest[len(name)+1:], ",}]")
		if strings.HasPrefix(rest[len(name)+1:], "[") {
			end++
		}
		base = base[:i] + `"ignored":0` + rest[len(name)+1+end:]
	}
	return strings.TrimSuffix(base, "}") + "," + members + "}"
}

func TestParseConfig(t *testing.T) {
	cfg, err := parseConfig([]byte(with(`"unknown_field":{"a":[1]},"classifier_dropout":null,"pad_token_id":null`)))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Architecture != "BertForSequenceClassification" || cfg.HiddenSize != 16 || cfg.Layers != 2 || cfg.Heads != 4 ||
		cfg.Intermediate != 24 || cfg.Vocab != 96 || cfg.MaxPositions != 22 || cfg.TypeVocab != 2 || cfg.PadID != 0 ||
		cfg.LayerNormEps != 1e-12 || cfg.HiddenAct != GELU || cfg.ClassifierDropout != 0.1 || cfg.NumLabels != 2 {
		t.Errorf("got %+v", cfg)
	}

	// The defaults of transformers' RobertaConfig.
	cfg, err = parseConfig([]byte(`{"model_type":"roberta"}`))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Vocab != 50265 || cfg.HiddenSize != 768 || cfg.Layers != 12 || cfg.PadID != 1 || cfg.Positions() != 510 || cfg.Architecture != "" {
		t.Errorf("got %+v", cfg)
	}
}

func TestParseConfigRejects(t *testing.T) {
	tests := []struct {
		name, config string
		kind         error
		text         string
	}{
		{"empty", ``, ErrDamaged, "config.json"},
		{"not JSON", `{`, ErrDamaged, "config.json"},
		{"an array", `[]`, ErrDamaged, "config.json"},
		{"null", `null`, ErrUnsupported, "model_type is missing"},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", ErrDamaged, "UTF-8"},
		{"duplicate field", with(`"vocab_size":96,"vocab_size":97`), ErrDamaged, "duplicate"},
		{"deep", `{"a":` + strings.Repeat("[", 100_000), ErrDamaged, "config.json"},
		{"no type", `{}`, ErrUnsupported, "model_type is missing"},
		{"another type", `{"model_type":"deberta"}`, ErrUnsupported, `model_type "deberta"`},
		{"xlm-roberta", `{"model_type":"xlm-roberta"}`, ErrUnsupported, `model_type "xlm-roberta"`},
		{"xlm-roberta by class", `{"model_type":"xlm-roberta","architectures":["XLMRobertaForSequenceClassification"]}`, ErrUnsupported, `"XLMRobertaForSequenceClassification"`},
		{"xlm-roberta in disguise", `{"model_type":"xlm-roberta","architectures":["RobertaModel"]}`, ErrUnsupported, `model_type "xlm-roberta"`},
		{"another class", with(`"architectures":["BertForTokenClassification"]`), ErrUnsupported, "architectures"},
		{"class of the other family", with(`"architectures":["RobertaModel"]`), ErrDamaged, "does not fit"},
		{"huge class name", with(`"architectures":["` + strings.Repeat("x", 100_000) + `"]`), ErrUnsupported, "architectures"},
		{"hidden against heads", with(`"num_attention_heads":3`), ErrDamaged, "hidden_size 16 is not a multiple of num_attention_heads 3"},
		{"zero heads", with(`"num_attention_heads":0`), ErrDamaged, "num_attention_heads is 0"},
		{"zero hidden", with(`"hidden_size":0`), ErrDamaged, "hidden_size is 0"},
		{"negative hidden", with(`"hidden_size":-16`), ErrDamaged, "hidden_size is -16"},
		{"hidden as text", with(`"hidden_size":"16"`), ErrDamaged, "hidden_size"},
		{"hidden as fraction", with(`"hidden_size":16.5`), ErrDamaged, "hidden_size"},
		{"hidden beyond int64", with(`"hidden_size":99999999999999999999`), ErrDamaged, "hidden_size"},
		{"zero layers", with(`"num_hidden_layers":0`), ErrDamaged, "num_hidden_layers is 0"},
		{"a thousand million layers", with(`"num_hidden_layers":1000000000`), ErrDamaged, "num_hidden_layers is 1000000000"},
		{"huge vocabulary", with(`"vocab_size":1000000000000`), ErrDamaged, "vocab_size is 1000000000000"},
		{"huge intermediate", with(`"intermediate_size":4294967296`), ErrDamaged, "intermediate_size"},
		{"huge positions", with(`"max_position_embeddings":1000000000`), ErrDamaged, "max_position_embeddings"},
		{"two positions", with(`"max_position_embeddings":2`), ErrDamaged, "max_position_embeddings"},
		{"zero token types", with(`"type_vocab_size":0`), ErrDamaged, "type_vocab_size"},
		{"padding outside", with(`"pad_token_id":96`), ErrDamaged, "pad_token_id is 96"},
		{"negative padding", with(`"pad_token_id":-1`), ErrDamaged, "pad_token_id is -1"},
		{"padding uses all positions", `{"model_type":"roberta","pad_token_id":511}`, ErrDamaged, "max_position_embeddings"},
		{"eps zero", with(`"layer_norm_eps":0`), ErrDamaged, "layer_norm_eps"},
		{"eps negative", with(`"layer_norm_eps":-1e-5`), ErrDamaged, "layer_norm_eps"},
		{"eps huge", with(`"layer_norm_eps":1e400`), ErrDamaged, "layer_norm_eps"},
		{"dropout of one", with(`"hidden_dropout_prob":1`), ErrDamaged, "hidden_dropout_prob is 1"},
		{"unknown activation", with(`"hidden_act":"xielu"`), ErrUnsupported, `hidden_act "xielu"`},
		{"activation as object", with(`"hidden_act":{}`), ErrDamaged, "hidden_act must be a string"},
		{"relative positions", with(`"position_embedding_type":"relative_key"`), ErrUnsupported, `position_embedding_type "relative_key"`},
		{"decoder", with(`"is_decoder":true`), ErrUnsupported, "is_decoder"},
		{"cross attention", with(`"add_cross_attention":true`), ErrUnsupported, "add_cross_attention"},
		{"pruned heads", with(`"pruned_heads":{"0":[1]}`), ErrUnsupported, "pruned_heads"},
		{"quantized", with(`"quantization_config":{"bits":4}`), ErrUnsupported, "quantization_config"},
		{"zero labels", with(`"num_labels":0`), ErrDamaged, "num_labels is 0"},
		{"huge number of labels", with(`"num_labels":1000000000`), ErrDamaged, "num_labels is 1000000000"},
		{"label out of range", with(`"id2label":{"0":"a","2":"b"}`), ErrDamaged, `id2label: key "2"`},
		{"label twice", with(`"id2label":{"1":"a","01":"b"}`), ErrDamaged, `id2label: key "01"`},
		{"label by name", with(`"id2label":{"a":"0"}`), ErrDamaged, `id2label: key "a"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseConfig([]byte(test.config))
			wantError(t, err, test.kind, test.text)
		})
	}
}

func TestLabels(t *testing.T) {
	tests := []struct {
		name, members        string
		violation, compliant int
		single               bool
	}{
		{"no names", `"a":0`, 0, 1, false},
		{"default names", `"id2label":{"0":"LABEL_0","1":"LABEL_1"}`, 0, 1, false},
		{"in order", `"id2label":{"0":"violation","1":"compliant"}`, 0, 1, false},
		{"reversed", `"id2label":{"0":"compliant","1":"violation"}`, 1, 0, false},
		{"reversed in capitals", `"id2label":{"1":"VIOLATION","0":" Compliant"}`, 1, 0, false},
		{"only the violation", `"id2label":{"0":"ok","1":"violation"}`, 1, 0, false},
		{"reversed with the name of the aspect", `"id2label":{"0":"toxicity:compliant","1":"toxicity:violation"}`, 1, 0, false},
		{"only compliant", `"id2label":{"0":"compliant","1":"bad"}`, 1, 0, false},
		{"other names", `"id2label":{"0":"negative","1":"positive"}`, 0, 1, false},
		{"numbers as names", `"id2label":{"0":0,"1":1}`, 0, 1, false},
		{"one", `"id2label":{"0":"LABEL_0"}`, 0, 0, true},
		{"one by number", `"num_labels":1`, 0, 0, true},
		{"number against names", `"id2label":{"0":"compliant","1":"violation","2":"x"},"num_labels":2`, 0, 1, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg, err := parseConfig([]byte(with(test.members)))
			if err != nil {
				t.Fatal(err)
			}
			rows, single, err := (&Checkpoint{Config: cfg}).Labels()
			if want := []LabelRows{{test.violation, test.compliant}}; err != nil || !slices.Equal(rows, want) || single != test.single {
				t.Errorf("got %v, %v, %v", rows, single, err)
			}
		})
	}

	cfg, err := parseConfig([]byte(with(`"id2label":{"0":"violation","1":"compliant","2":"neutral"}`)))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = (&Checkpoint{Config: cfg}).Labels()
	wantError(t, err, ErrUnsupported, "3 labels in id2label")
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(tinyConfig))
	f.Add([]byte(with(`"id2label":{"0":"violation","1":null},"hidden_act":"gelu_new"`)))
	f.Add([]byte(with(`"id2label":{"0":"a:violation","1":"B:Compliant","2":"b:violation","3":"a:compliant"}`)))
	for _, name := range []string{"roberta-reversed", "roberta-int8", "bert-mlm", "deberta-v2", "deberta-p2c", "modernbert-mean", "modernbert-mlm"} {
		data, err := os.ReadFile(filepath.Join("testdata", name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := parseConfig(data)
		if err != nil {
			if len(err.Error()) > 800 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		// An accepted configuration can be written, and reads back the same.
		out, _, err := cfg.forWriting(cfg.labeledAspects())
		if err != nil {
			if cfg.NumLabels <= 2 || cfg.labeledAspects() != nil {
				t.Fatal(err)
			}
			return
		}
		text, err := out.marshal(F32, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseConfig(text)
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if again.HiddenSize != cfg.HiddenSize || again.HiddenAct != cfg.HiddenAct || again.LayerNormEps != cfg.LayerNormEps ||
			again.NumLabels != cfg.NumLabels || again.PadID != cfg.PadID || again.ModelType != cfg.ModelType || again.Disentangled != cfg.Disentangled || !reflect.DeepEqual(again.Modern, cfg.Modern) {
			t.Fatalf("%+v became %+v", cfg, again)
		}
	})
}
