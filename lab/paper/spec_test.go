package paper

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/lab/paper/baseline"
	"assay/rewardmodel/train"
)

// Results files contain keys: a changed key makes completed runs look outstanding.
func TestKeysAreStable(t *testing.T) {
	s := Spec{
		Dataset: SST2, SigmaMicro: 2, SigmaMacro: 1, Method: BFGPU,
		Settings: Settings{"weights": "paper", "loss": "sigmoid"}, Backbone: "minilm", Rate: 2e-5, Epochs: 5, Batch: 16, Seed: 1,
	}
	require.Equal(t, "sst2 micro=2 macro=1 bfgpu [loss=sigmoid weights=paper] minilm lr=2e-05 epochs=5 batch=16 seed=1", s.Key())
	s.Settings, s.Method, s.Bags = nil, NNPU+PLADT, 100
	require.Equal(t, "sst2 micro=2 macro=1 nnpu+pl+adt minilm lr=2e-05 epochs=5 batch=16 bags=100 seed=1", s.Key())
}

func TestKeysTellRunsApart(t *testing.T) {
	base := Spec{Dataset: SST2, SigmaMicro: 2, SigmaMacro: 1, Method: BFGPU, Backbone: "b", Rate: 1e-5, Epochs: 5, Batch: 16}
	seen := map[string]bool{base.Key(): true}
	for _, change := range []func(*Spec){
		func(s *Spec) { s.Dataset = IMDB }, func(s *Spec) { s.SigmaMicro = 3 }, func(s *Spec) { s.SigmaMacro = 5 },
		func(s *Spec) { s.Method = Macro }, func(s *Spec) { s.Settings = Settings{"loss": "sigmoid"} },
		func(s *Spec) { s.Backbone = "c" }, func(s *Spec) { s.Rate = 2e-5 }, func(s *Spec) { s.Epochs = 1 },
		func(s *Spec) { s.Batch = 8 }, func(s *Spec) { s.Seed = 1 }, func(s *Spec) { s.Bags = 10 },
	} {
		s := base
		change(&s)
		require.NoError(t, s.Validate())
		require.False(t, seen[s.Key()], s.Key())
		seen[s.Key()] = true
	}
}

func TestValidateNamesTheField(t *testing.T) {
	good := Spec{Dataset: SST2, SigmaMicro: 2, SigmaMacro: 1, Method: BFGPU, Backbone: "b", Rate: 1e-5, Epochs: 5, Batch: 16}
	for field, change := range map[string]func(*Spec){
		"dataset": func(s *Spec) { s.Dataset = "sst3" }, "sigma_micro": func(s *Spec) { s.SigmaMicro = 0 },
		"sigma_macro": func(s *Spec) { s.SigmaMacro = 0 }, "has real bags": func(s *Spec) { s.Dataset = IMDBSentences },
		"method": func(s *Spec) { s.Method = "bfgpu+pl+adt" }, "backbone": func(s *Spec) { s.Backbone = "a b" },
		"rate": func(s *Spec) { s.Rate = -1 }, "epochs": func(s *Spec) { s.Epochs = 0 }, "batch": func(s *Spec) { s.Batch = 0 },
		"bags": func(s *Spec) { s.Bags = -1 }, "setting": func(s *Spec) { s.Settings = Settings{"a": "b c"} },
	} {
		s := good
		change(&s)
		err := s.Validate()
		require.ErrorIs(t, err, ErrSpec, field)
		require.ErrorContains(t, err, field)
	}
	require.NoError(t, Spec{Dataset: IMDBSentences, Method: "llm:gpt-4o"}.Validate())
	good.Dataset = FilesPrefix + "bags_sst2"
	require.NoError(t, good.Validate())
	good.Dataset = FilesPrefix
	require.ErrorIs(t, good.Validate(), ErrSpec)
	require.ErrorIs(t, Spec{Dataset: IMDBSentences, Method: "llm:"}.Validate(), ErrSpec)
}

func TestSettings(t *testing.T) {
	s, err := ParseSettings("weights=paper,loss=sigmoid  fold=0.2")
	require.NoError(t, err)
	require.Equal(t, "fold=0.2 loss=sigmoid weights=paper", s.String())
	for _, bad := range []string{"weights", "=paper", "weights="} {
		_, err := ParseSettings(bad)
		require.ErrorIs(t, err, ErrSpec, bad)
	}
	require.Equal(t, "loss=b weights=a", Settings{"weights": "a", "loss": "a"}.With(Settings{"loss": "b"}).String())
}

// Every method of a plan can be trained.
func TestMethodsExist(t *testing.T) {
	trained := slices.Concat(train.Methods(), baseline.Methods())
	for _, m := range Methods() {
		require.Contains(t, trained, strings.TrimSuffix(m, PLADT))
	}
	require.Len(t, Methods(), len(trained)+len(PUMethods()))
}
