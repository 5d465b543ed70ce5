package commands

import (
	"fmt"

	"assay/rewardmodel"
	"assay/sidecar/cli"
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
		return cli.Usage(fmt.Errorf("--gamma is %v; give a number above 0 and at most 1", f.Gamma))
	case f.Tokenizer != "" && f.Dense == "":
		return cli.Usage(fmt.Errorf("--tokenizer %s counts for dense rewards alone; give --dense as well", f.Tokenizer))
	case f.Dense != "":
		o.Dense, o.Gamma, o.Tokenizer = rewardmodel.Dense(f.Dense), &f.Gamma, f.Tokenizer
	}
	return nil
}
