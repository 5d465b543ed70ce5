package commands

import (
	"assay/rewardmodel"
	"assay/segmenter"
	"assay/sidecar/cli"
)

// Segment splits texts into utterances. It needs no model, so no length limit
// applies.
type Segment struct {
	cli.InputFlags
	offsetFlag
}

// offsetFlag selects the unit of the offsets in results.
type offsetFlag struct {
	OffsetUnit string `default:"codepoint" enum:"codepoint,utf8,utf16" help:"Unit of offsets (${enum})."`
}

func (f offsetFlag) unit() rewardmodel.OffsetUnit { return rewardmodel.OffsetUnit(f.OffsetUnit) }

// Help is shown by --help.
func (*Segment) Help() string {
	return `Example:

    echo '{"id":"a","text":"Thank you. See you at 3 p.m. on Friday!"}' | assay segment

Each line {"id"?,"text"} gives {"id","instances":[{"start","end","text"}]}. Instances are in document order and
cover every non-whitespace character.`
}

type segmented struct {
	ID        string             `json:"id"`
	Instances []segmentedPortion `json:"instances"`
}

type segmentedPortion struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text"`
}

// Run is called by kong.
func (c *Segment) Run(a *cli.App) error {
	return cli.EachText(a, c.InputFlags, func(id, text string) (any, error) {
		spans, err := segmenter.Segment(a.Context, text)
		if err != nil {
			return nil, err
		}
		out := segmented{ID: id, Instances: make([]segmentedPortion, len(spans))}
		for i, at := range c.unit().Convert(text, spans) {
			out.Instances[i] = segmentedPortion{at.Start, at.End, text[spans[i].Start:spans[i].End]}
		}
		return out, nil
	})
}
