package main

import (
	"fmt"
	"strings"

	"assay/rewardmodel"
	"assay/rewardmodel/tokenizer"
)

// denseFlags lay rewards out over tokens.
type denseFlags struct {
	Dense     string  `default:"" enum:",last,instance,witness,shaped" placeholder:"LAYOUT" help:"Lay the reward out over the policy's tokens: last, instance, witness or shaped. Each line gives its token_offsets, or --tokenizer makes them."`
	Gamma     float64 `default:"1" help:"Discount in (0,1] of --dense shaped."`
	Tokenizer string  `placeholder:"NAME" help:"Tokenizer of the lines without token_offsets: one of --policy-tokenizer, or assay for the model's own."`
}

func (f denseFlags) set(o *rewardmodel.Options) error {
	switch {
	case !(f.Gamma > 0 && f.Gamma <= 1):
		return usageError{fmt.Errorf("--gamma is %v; give a number above 0 and at most 1", f.Gamma)}
	case f.Tokenizer != "" && f.Dense == "":
		return usageError{fmt.Errorf("--tokenizer %s counts for dense rewards alone; give --dense as well", f.Tokenizer)}
	case f.Dense != "":
		o.Dense, o.Gamma, o.Tokenizer = rewardmodel.Dense(f.Dense), &f.Gamma, f.Tokenizer
	}
	return nil
}

// policyFlags name the tokenizers of policy models.
type policyFlags struct {
	PolicyTokenizer []string `placeholder:"NAME=FOLDER" help:"Tokenizer of a policy model, for dense rewards (options.tokenizer): a name, and the folder with its tokenizer.json. Repeatable."`
}

func (f policyFlags) load() (map[string]rewardmodel.PolicyTokenizer, error) {
	loaded := map[string]rewardmodel.PolicyTokenizer{}
	for _, setting := range f.PolicyTokenizer {
		name, dir, ok := strings.Cut(setting, "=")
		if !ok || name == "" || dir == "" {
			return nil, usageError{fmt.Errorf("--policy-tokenizer %s: give NAME=FOLDER", setting)}
		}
		if loaded[name] != nil {
			return nil, usageError{fmt.Errorf("--policy-tokenizer %s: the name %s is given twice", setting, name)}
		}
		t, err := tokenizer.LoadPolicy(dir)
		if err != nil {
			return nil, usageError{fmt.Errorf("--policy-tokenizer %s: %w", setting, err)}
		}
		loaded[name] = t
	}
	return loaded, nil
}
