package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	client "assay/clients/go"
	"assay/rewardmodel/feedback"
	"assay/sidecar/cli"
)

// Feedback is the command "assay feedback": labels of responses.
type Feedback struct {
	Send       feedbackSendCmd       `cmd:"" help:"Send labeled responses (JSONL) to a running service."`
	Candidates feedbackCandidatesCmd `cmd:"" help:"List the scored responses that are most informative to label."`
	Show       feedbackShowCmd       `cmd:"" help:"Show feedback statistics, or the labels of a response."`
	Withdraw   feedbackWithdrawCmd   `cmd:"" help:"Withdraw the label of one rater for a response."`
	Erase      feedbackEraseCmd      `cmd:"" help:"Erase the labels and the text of a response."`
}

type feedbackSendCmd struct {
	File    string `arg:"" optional:"" help:"Bag file (JSONL); standard input if omitted or -."`
	Batch   int    `default:"500" help:"Items per request."`
	SkipBad bool   `help:"Exit with 0 even if items were rejected."`
	clientFlags
}

// Help is shown by --help.
func (*feedbackSendCmd) Help() string {
	return `Example:

    assay feedback send labels.jsonl --url http://127.0.0.1:8080

Each line is {"id","label":"violation"|"compliant","response"}, or {"response_id","label"} for a response that the
service has scored and stored. Prints one receipt for all items. Items that were sent before count as duplicates, so you
can repeat an interrupted run. Exits with 2 if items were rejected; the others are stored.`
}

// Run is called by kong.
func (c *feedbackSendCmd) Run(a *cli.App) error {
	if c.Batch < 1 {
		return cli.Usage(fmt.Errorf("--batch is %d; give at least 1", c.Batch))
	}
	in, err := cli.InputFlags{File: c.File}.Open(a)
	if err != nil {
		return err
	}
	defer in.Close()
	service, err := c.client()
	if err != nil {
		return err
	}
	defer service.Close()
	ctx, stop := a.UntilSignal()
	defer stop()
	total := feedback.Receipt{Rejected: []feedback.Rejection{}}
	shown := a.NewProgress("items", in.Size)
	line := 0
	for end := false; !end; {
		var body bytes.Buffer
		var at []int // the line of each item
		for len(at) < c.Batch && body.Len() < 8<<20 && !end {
			text, err := in.Reader.ReadBytes('\n')
			line++
			if end = errors.Is(err, io.EOF); err != nil && !end {
				return err
			}
			if len(bytes.TrimSpace(text)) > 0 {
				body.Write(append(bytes.TrimSpace(text), '\n'))
				at = append(at, line)
			}
		}
		if len(at) == 0 {
			continue
		}
		answer, err := call(ctx, service, client.Request{
			Method: http.MethodPost, Path: "/v1/feedback", MediaType: "application/x-ndjson", Body: body.Bytes(),
			Idempotent: true, // items sent before are duplicates
		})
		if err != nil {
			return fmt.Errorf("from line %d on: %w", at[0], err)
		}
		var receipt feedback.Receipt
		if err := json.Unmarshal(answer, &receipt); err != nil {
			return fmt.Errorf("the response is not a receipt: %w", err)
		}
		total.Accepted += receipt.Accepted
		total.Duplicates += receipt.Duplicates
		for _, r := range receipt.Rejected {
			if r.Index < 0 || r.Index >= len(at) {
				return fmt.Errorf("the service rejected item %d of %d", r.Index, len(at))
			}
			a.Log.Warn().Int("line", at[r.Index]).Str("id", r.ID).Str("code", string(r.Code)).Msg(r.Message)
			r.Index = at[r.Index] - 1
			total.Rejected = append(total.Rejected, r)
		}
		shown.Add(len(at), body.Len())
	}
	shown.Finish()
	out, err := json.Marshal(total)
	if err != nil {
		return err
	}
	if _, err := a.Stdout.Write(append(out, '\n')); err != nil {
		return err
	}
	if len(total.Rejected) > 0 && !c.SkipBad {
		return cli.Usage(fmt.Errorf("%d items were rejected; fix them and send them again", len(total.Rejected)))
	}
	return nil
}

type feedbackCandidatesCmd struct {
	N int `short:"n" default:"20" help:"Number of responses."`
	clientFlags
}

// Help is shown by --help.
func (*feedbackCandidatesCmd) Help() string {
	return `Example:

    assay feedback candidates -n 50 > to-label.json

Ranks the stored responses (serve --keep-scored 24h) without a label: those near the threshold, those that two
versions decide differently, and those that differ from each other come first.`
}

// Run is called by kong.
func (c *feedbackCandidatesCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodGet, fmt.Sprintf("/v1/feedback/candidates?n=%d", c.N), nil)
}

type feedbackShowCmd struct {
	ID string `arg:"" optional:"" help:"ID of a response: show its labels by rater."`
	clientFlags
}

// Help is shown by --help.
func (*feedbackShowCmd) Help() string {
	return `Example:

    assay feedback show
    assay feedback show r1

Prints the number of responses per label, in the hold-out, with disagreeing raters, and new since the last training run.
With an ID, prints the labels of that response by rater.`
}

// Run is called by kong.
func (c *feedbackShowCmd) Run(a *cli.App) error {
	if c.ID != "" {
		return c.show(a, http.MethodGet, "/v1/feedback/"+url.PathEscape(c.ID)+"/labels", nil)
	}
	return c.show(a, http.MethodGet, "/v1/feedback", nil)
}

type feedbackWithdrawCmd struct {
	ID    string `arg:"" help:"ID of the response."`
	Rater string `help:"Rater of the label; default: the label without a rater."`
	clientFlags
}

// Help is shown by --help.
func (*feedbackWithdrawCmd) Help() string {
	return `Example:

    assay feedback withdraw r1 --rater ann

Later training runs do not use the label. The labels of other raters stay.`
}

// Run is called by kong.
func (c *feedbackWithdrawCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodDelete, "/v1/feedback/"+url.PathEscape(c.ID)+"/labels?rater="+url.QueryEscape(c.Rater), nil)
}

type feedbackEraseCmd struct {
	ID string `arg:"" help:"ID of the response."`
	clientFlags
}

// Help is shown by --help.
func (*feedbackEraseCmd) Help() string {
	return `Example:

    assay feedback erase r1

Overwrites the labels of all raters and the text, and rejects the ID from then on. If the service requires tokens, this
needs one with the scope admin.`
}

// Run is called by kong.
func (c *feedbackEraseCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodDelete, "/v1/feedback/"+url.PathEscape(c.ID), nil)
}
