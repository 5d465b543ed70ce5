package report

import (
	"fmt"
	"io"
	"strings"
)

// Tables are the tables of groups that a report has: those with several groups.
func (s Summary) Tables() (out []Table) {
	for _, t := range append([]Table{{"model version", s.Models}, {"number of utterances", s.Lengths}}, s.Fields...) {
		if len(t.Groups) > 1 {
			out = append(out, t)
		}
	}
	return out
}

// WriteMarkdown writes what WriteHTML does, with tables instead of charts.
func (s Summary) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", cell(s.Title))
	for _, stage := range s.Training {
		rows := [][]string{{"epoch", "steps", "mean loss"}}
		for _, p := range stage.Epochs() {
			rows = append(rows, []string{fmt.Sprint(p.Epoch), fmt.Sprint(p.Step), decimals(p.Loss)})
		}
		fmt.Fprintf(&b, "\n## Training: %s\n\n", cell(stage.Name))
		table(&b, rows)
	}
	if s.All.Responses > 0 {
		s.writeResponses(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeResponses writes the sections about responses.
func (s Summary) writeResponses(b *strings.Builder) {
	fmt.Fprintf(b, "\n%d responses, %s flagged as violations, mean reward %s. %d are empty, %d have more utterances than were scored.\n",
		s.All.Responses, percent(s.All.Flagged), decimals(s.All.Reward), s.Empty, s.Truncated)
	b.WriteString("\n## Rewards\n\n")
	rows := [][]string{{"share of responses", "reward below"}}
	for _, q := range s.Rewards.Quantiles {
		rows = append(rows, []string{percent(q.Share), decimals(q.Value)})
	}
	table(b, rows)
	tables := s.Tables()
	if len(s.Steps) > 0 {
		tables = append([]Table{{"step of the policy", s.Steps}}, tables...)
	}
	for _, t := range tables {
		rows = [][]string{{t.Head, "responses", "flagged", "mean reward"}}
		for _, g := range t.Groups {
			rows = append(rows, []string{g.Name, fmt.Sprint(g.Responses), percent(g.Flagged), decimals(g.Reward)})
		}
		fmt.Fprintf(b, "\n## By %s\n\n", cell(t.Head))
		table(b, rows)
	}
	if c := s.Calibration; c != nil {
		fmt.Fprintf(b, "\n## Against labels\n\n%d responses have a label: AUROC %s, mean recall of both labels %s, expected calibration error %s.\n\n",
			c.Labeled, decimals(c.AUROC), decimals(c.Accuracy), decimals(c.ECE))
		rows = [][]string{{"mean violation", "responses", "labeled a violation"}}
		for _, bin := range c.Bins {
			if bin.Responses > 0 {
				rows = append(rows, []string{decimals(bin.Violation), fmt.Sprint(bin.Responses), percent(bin.Violations)})
			}
		}
		table(b, rows)
	}
	if c := s.Comparison; c != nil {
		fmt.Fprintf(b, "\n## Compared with other scores\n\n%d responses are in both files. The rewards correlate at %s (Spearman); they differ by %s on average and by at most %s. %d verdicts differ.\n",
			c.Common, decimals(c.Correlation), decimals(c.Difference), decimals(c.Largest), c.Flips)
		if len(c.Changes) > 0 {
			rows = [][]string{{"response", "before", "reward", "after", "reward"}}
			for _, change := range c.Changes {
				rows = append(rows, []string{change.After.ID, verdict(change.Before.Compliant) + ": " + change.Before.Witness, decimals(change.Before.Reward),
					verdict(change.After.Compliant) + ": " + change.After.Witness, decimals(change.After.Reward)})
			}
			b.WriteString("\n")
			table(b, rows)
		}
	}
	if len(s.Phrases) > 0 {
		b.WriteString("\n## Repeated witnesses\n\n")
		rows = [][]string{{"witness", "responses", "mean violation"}}
		for _, p := range s.Phrases {
			rows = append(rows, []string{p.Text, fmt.Sprint(p.Responses), decimals(p.Violation)})
		}
		table(b, rows)
	}
	if len(s.Worst) > 0 {
		b.WriteString("\n## Lowest rewards\n\n")
		rows = [][]string{{"response", "witness", "violation", "reward"}}
		for _, r := range s.Worst {
			rows = append(rows, []string{r.ID, r.Witness, decimals(r.Violation), decimals(r.Reward)})
		}
		table(b, rows)
	}
}

// table writes a table whose first row is the head.
func table(b *strings.Builder, rows [][]string) {
	for i, row := range rows {
		for _, text := range row {
			b.WriteString("| " + cell(text) + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
}

// cell is a text as the content of a cell, without markup of its own.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`).Replace(text)
}
