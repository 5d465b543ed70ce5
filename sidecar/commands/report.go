package commands

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/durable"
	"assay/sidecar/cli"
	"assay/sidecar/report"
)

// Report describes scored responses for people.
type Report struct {
	Scored   string `arg:"" optional:"" help:"Scored responses (JSONL): the output of assay score, or messages of assay.v1.rewards; -: standard input."`
	Out      string `short:"o" placeholder:"FILE" help:"File to write; default: standard output."`
	Format   string `enum:",html,markdown" default:"" help:"Format (html or markdown); default: markdown for a file whose name ends in .md, otherwise html."`
	With     string `placeholder:"FILE" help:"Lines (JSONL) with the same ids that say more about the responses: label, metadata, and other fields to group by. The file that was scored will do."`
	Compare  string `placeholder:"FILE" help:"Earlier scores (JSONL) of the same responses, such as those of another version of the model."`
	Training string `placeholder:"FILE" help:"Progress of a training run, the output of assay train --progress json: adds its loss curves. SCORED may then be omitted."`
	Title    string `help:"Title of the report; default: the name of the file."`
	Worst    int    `default:"20" help:"Maximum number of responses with the lowest rewards, and of changed verdicts, to list."`
}

// Help is shown by --help.
func (*Report) Help() string {
	return `Examples:

    assay score responses.jsonl > scored.jsonl
    assay report scored.jsonl --with responses.jsonl -o report.html
    assay report new.jsonl --compare old.jsonl -o changes.md
    assay report --training progress.jsonl -o training.html

The report has the distribution of the rewards, their means by number of utterances, model version and the fields of
the responses (metadata included), over metadata.step if there is one, the agreement with labels, the witnesses that
occur several times, and the responses with the lowest rewards. It contains texts of responses.`
}

// Run is called by kong.
func (c *Report) Run(a *cli.App) error {
	if c.Worst < 0 {
		return cli.Usage(fmt.Errorf("--worst is %d; give 0 or more", c.Worst))
	}
	if c.Scored == "" && (c.Training == "" || c.With != "" || c.Compare != "") {
		return cli.Usage(errors.New("SCORED is missing; give a file of scored responses, or --training alone"))
	}
	s, err := c.summarize(a)
	if err != nil {
		return err
	}
	write := s.WriteHTML
	if c.Format == "markdown" || c.Format == "" && strings.HasSuffix(c.Out, ".md") {
		write = s.WriteMarkdown
	}
	if c.Out == "" {
		return write(a.Stdout)
	}
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	return durable.WriteFile(c.Out, text.Bytes(), 0o644)
}

// summarize reads the files and summarizes them.
func (c *Report) summarize(a *cli.App) (report.Summary, error) {
	name := filepath.Base(cmp.Or(c.Scored, c.Training))
	if c.Scored == "-" {
		name = "Scored responses"
	}
	var responses []report.Response
	var err error
	if c.Scored != "" {
		responses, err = readScored(a, c.Scored)
	}
	if err == nil && c.With != "" {
		err = c.join(a, responses)
	}
	s := report.New(cmp.Or(c.Title, name), responses, c.Worst)
	if err == nil && c.Training != "" {
		err = withFile(a, c.Training, func(r io.Reader) (err error) {
			s.Training, err = report.ReadTraining(r)
			return err
		})
	}
	if err == nil && c.Compare != "" {
		s.Comparison, err = c.compare(a, responses)
	}
	return s, err
}

// compare compares with the file of --compare.
func (c *Report) compare(a *cli.App, responses []report.Response) (*report.Comparison, error) {
	before, err := readScored(a, c.Compare)
	if err != nil {
		return nil, err
	}
	out := report.Compare(before, responses, c.Worst)
	if out.Common == 0 {
		return nil, cli.Usage(fmt.Errorf("--compare %s: no response has an id of %s", c.Compare, c.Scored))
	}
	return out, nil
}

func readScored(a *cli.App, name string) (responses []report.Response, err error) {
	err = withFile(a, name, func(r io.Reader) error {
		responses, err = report.Read(r)
		return err
	})
	return responses, err
}

// join adds what the file of --with says.
func (c *Report) join(a *cli.App, responses []report.Response) error {
	return withFile(a, c.With, func(r io.Reader) error {
		joined, err := report.Join(responses, r)
		if err == nil && joined == 0 {
			err = fmt.Errorf("no line has an id of %s; score lines with an id", c.Scored)
		}
		return err
	})
}

// withFile calls f with a file, or with standard input for "-". Its content is at fault if f fails.
func withFile(a *cli.App, name string, f func(io.Reader) error) error {
	in := a.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return cli.Usage(err)
		}
		defer file.Close()
		in = file
	}
	if err := f(in); err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}
