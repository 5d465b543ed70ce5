package commands

import (
	"slices"

	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// Tokenize turns texts into the token ids that a model reads.
type Tokenize struct {
	cli.InputFlags
	offsetFlag
	Model string `default:"${model}" placeholder:"DIR" help:"Directory of the tokenizer files, or its name under models/ (${default})."`
}

// Help is shown by --help.
func (*Tokenize) Help() string {
	return `Example:

    echo '{"id":"a","text":"Thank you."}' | assay tokenize --model models/default

Each line {"id"?,"text"} gives {"id","ids":[int],"offsets":[[start,end]]}, including the special tokens, whose
offsets are [0,0]. Only the tokenizer files are needed.`
}

type tokenized struct {
	ID      string   `json:"id"`
	IDs     []int32  `json:"ids"`
	Offsets [][2]int `json:"offsets"`
}

// Run is called by kong.
func (c *Tokenize) Run(a *cli.App) error {
	dir, err := localmodel.Find("--model", c.Model)
	if err != nil {
		return err
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return cli.Usage(err)
	}
	// The index of the first token of the text, after the special tokens.
	lead := slices.Index(tok.Frame([]int32{-1}), -1)
	return cli.EachText(a, c.InputFlags, func(id, text string) (any, error) {
		encoding := tok.Encode(text)
		out := tokenized{ID: id, IDs: tok.Frame(encoding.IDs)}
		out.Offsets = make([][2]int, len(out.IDs))
		for i, at := range c.unit().Convert(text, encoding.Offsets) {
			out.Offsets[lead+i] = [2]int{at.Start, at.End}
		}
		return out, nil
	})
}
