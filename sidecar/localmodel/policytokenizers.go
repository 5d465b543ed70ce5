package localmodel

import (
	"fmt"
	"strings"

	"assay/rewardmodel"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
)

// PolicyFlags specify the tokenizers of policy models.
type PolicyFlags struct {
	PolicyTokenizer []string `placeholder:"NAME=DIR" help:"Tokenizer of a policy model, for dense rewards (options.tokenizer): a name, and the directory of its tokenizer.json. Repeatable."`
}

// Load reads the tokenizers, by name.
func (f PolicyFlags) Load() (map[string]rewardmodel.PolicyTokenizer, error) {
	loaded := map[string]rewardmodel.PolicyTokenizer{}
	for _, setting := range f.PolicyTokenizer {
		name, dir, ok := strings.Cut(setting, "=")
		if !ok || name == "" || dir == "" {
			return nil, cli.Usage(fmt.Errorf("--policy-tokenizer %s: give NAME=DIR", setting))
		}
		if loaded[name] != nil {
			return nil, cli.Usage(fmt.Errorf("--policy-tokenizer %s: duplicate name %s; give each tokenizer its own name", setting, name))
		}
		t, err := tokenizer.LoadPolicy(dir)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--policy-tokenizer %s: %w", setting, err))
		}
		loaded[name] = t
	}
	return loaded, nil
}
