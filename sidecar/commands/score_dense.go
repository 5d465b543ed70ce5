package commands

import (
	"fmt"

	"assay/rewardmodel"
	"assay/sidecar/cli"
)

// denseFlags configure token-level rewards.
type denseFlags struct {
	Dense     string  `default:"" enum:",last,instance,witness,shaped" placeholder:"LAYOUT" help:"Assign token-level rewards: last, instance, witness or shaped. Each line needs token_offsets unless --tokenizer is given."`
	Gamma     float64 `default:"1" help:"Discount factor in (0,1] of --dense shaped."`
	Tokenizer string  `placeholder:"NAME" help:"Tokenizer for lines without token_offsets: a name from --policy-tokenizer, or assay for that of the model."`
}

func (f denseFlags) set(o *rewardmodel.Options) error {
	switch {
	case !(f.Gamma > 0 && f.Gamma <= 1):
		return cli.Usage(fmt.Errorf("--gamma is %v; give a number above 0 and at most 1", f.Gamma))
	case f.Tokenizer != "" && f.Dense == "":
		return cli.Usage(fmt.Errorf("--tokenizer %s requires --dense; add --dense or omit --tokenizer", f.Tokenizer))
	case f.Dense != "":
		o.Dense, o.Gamma, o.Tokenizer = rewardmodel.Dense(f.Dense), &f.Gamma, f.Tokenizer
	}
	return nil
}
