package localmodel

import (
	"errors"
	"fmt"

	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/spelling"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
)

// OpenBase opens the checkpoint that a training run initializes from, with its tokenizer; name is a directory, or a name
// under models/. Errors name --init. The caller closes the checkpoint, whose Dir is the directory.
func OpenBase(name string) (*checkpoint.Checkpoint, *tokenizer.Tokenizer, error) {
	dir, err := Find("--init", name)
	if err != nil {
		return nil, nil, err
	}
	base, err := checkpoint.Open(dir)
	if err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("--init: %w", err))
	}
	tok, err := tokenizerOf(base)
	if err != nil {
		return nil, nil, errors.Join(cli.Usage(fmt.Errorf("--init: %w", err)), base.Close())
	}
	return base, tok, nil
}

// tokenizerOf returns the tokenizer of a checkpoint, as the checkpoint reads texts.
func tokenizerOf(ckpt *checkpoint.Checkpoint) (*tokenizer.Tokenizer, error) {
	tok, err := tokenizer.Load(ckpt.Dir)
	if err != nil {
		return nil, err
	}
	if ckpt.Manifest.DescribeEmoji {
		tok = tok.Respelled(spelling.DescribeEmoji)
	}
	if ckpt.Manifest.NormalizeSpelling {
		tok = tok.Respelled(spelling.Normalize)
	}
	return tok, nil
}
