package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/rewardmodel/bag"
)

// none is the text of a cell without a value.
const none = "–"

// Markdown returns the report as a Markdown document.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Report on %s\n\nVersion %s, %s, %s. A response is flagged if its violation is above T = %.4f", r.Model, r.Version, r.Precision, r.Date, r.Threshold)
	if len(r.Aspects) > 0 {
		b.WriteString(", on a scale where the threshold of each aspect, for the number of utterances, is 0.5 and the violation is the worst of all aspects; read the calibration of the aspects, not that of this scale")
	}
	if r.LengthSlope > 0 {
		fmt.Fprintf(&b, ". The log-odds of T grow by %.3g ln(n) with the number n of utterances; violations are corrected by as much where they are ranked or compared with a threshold", r.LengthSlope)
	}
	fmt.Fprintf(&b, ". In brackets: 95 %% intervals by bootstrap over responses (%d resamples).\n", r.Resamples)
	r.writeSets(&b)
	r.writeGroups(&b)
	r.writeOperatingPoints(&b)
	r.writePrecisions(&b)
	r.writeBaselines(&b)
	r.writeWrong(&b)
	return b.String()
}

func (r Report) writeSets(b *strings.Builder) {
	b.WriteString("\n## Sets\n\nECE: expected calibration error of the violation as a probability. The last two columns are about violations that have violating and harmless utterances: the AUROC of these, and the share of the responses whose witness is a violating one.\n\n")
	writeRows(b, r.Sets, setColumn(), sizeColumn(), violationsColumn(), metric("AUROC", "bag_auroc"), metric("average precision", "bag_auprc"), recall(), falseAlarms(),
		metric("ECE", "ece"), metric("AUROC of utterances", "instance_auroc_mixed"), metric("witness hit@1", "witness_hit1"))
	for _, row := range r.Sets {
		if row.Partial {
			fmt.Fprintf(b, "\n%s: some compliant responses are labeled for some aspects only. A model with several is judged by those; a false alarm of another may violate a rule that the set does not label.\n", row.Set)
		}
		if row.Skipped > 0 {
			fmt.Fprintf(b, "\n%s: the labels of %d responses say nothing about the aspects of the model; they are skipped.\n", row.Set, row.Skipped)
		}
	}
	if len(r.Aspects) > 0 {
		b.WriteString("\n### Aspects\n\nEach on the responses that are labeled for it, at its own threshold.\n\n")
		writeRows(b, r.Aspects, setColumn(), valueColumn("aspect"), sizeColumn(), violationsColumn(), metric("AUROC", "bag_auroc"), recall(), falseAlarms(), metric("ECE", "ece"))
	}
}

func (r Report) writeGroups(b *strings.Builder) {
	fields := map[string][]Row{}
	for _, row := range r.Groups {
		fields[row.Field] = append(fields[row.Field], row)
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(b, "\n## By %s\n\n", field)
		writeRows(b, fields[field], setColumn(), valueColumn(field), sizeColumn(), violationsColumn(), metric("AUROC", "bag_auroc"), recall(), falseAlarms())
	}
	b.WriteString("\n## By length\n\nViolations and harmless responses of all sets; harmless are those that are labeled compliant with every rule.\n\n")
	writeRows(b, r.Lengths, valueColumn("words"), sizeColumn(), violationsColumn(), recall(), falseAlarms())
	b.WriteString("\n## Identity terms\n\nHarmless responses of all sets that name a group of people.\n\n")
	writeRows(b, r.Terms, valueColumn("term"), sizeColumn(), falseAlarms())
}

func (r Report) writeOperatingPoints(b *strings.Builder) {
	b.WriteString("\n## Operating points\n\n")
	if len(r.OperatingPoints) == 0 {
		b.WriteString("There are no harmless responses.\n")
		return
	}
	fmt.Fprintf(b, "The smallest threshold that flags at most a share of the %d harmless responses, and the recall of the violations of each set. A share of less than one response is none.\n\n", r.OperatingPoints[0].Harmless)
	sets := slices.Sorted(maps.Keys(r.OperatingPoints[0].Recall))
	writeLine(b, append([]string{"false alarms, at most", "threshold", "false alarms"}, sets...), true)
	for _, p := range r.OperatingPoints {
		cells := []string{percent(p.Target), fmt.Sprintf("%.4f", p.Threshold), percent(p.FalseAlarms)}
		for _, set := range sets {
			cells = append(cells, number(p.Recall[set]))
		}
		writeLine(b, cells, false)
	}
}

func (r Report) writePrecisions(b *strings.Builder) {
	b.WriteString("\n## Precisions\n\nAUROC of each set, and the largest difference of a reward from the first.\n\n")
	sets := slices.Sorted(maps.Keys(r.Precisions[0].AUROC))
	writeLine(b, append([]string{"precision", "largest difference of a reward"}, sets...), true)
	for _, p := range r.Precisions {
		cells := []string{p.Name, cmp.Or(p.Error, fmt.Sprintf("%.4f", p.MaxReward))}
		for _, set := range sets {
			cell := none
			if auroc, ok := p.AUROC[set]; ok {
				cell = fmt.Sprintf("%.4f", auroc)
			}
			cells = append(cells, cell)
		}
		writeLine(b, cells, false)
	}
}

func (r Report) writeBaselines(b *strings.Builder) {
	b.WriteString("\n## Baselines\n\nAUROC of each baseline, and whether the model is better, worse or undecided: the 95 % interval of the difference (paired bootstrap) is above 0, below 0, or contains 0. " +
		"length: the number of words, in the direction that suits the set.\n\n")
	if r.NoBaselines != "" {
		fmt.Fprintf(b, "The others are missing: %s.\n\n", r.NoBaselines)
	}
	head := []string{"set", "model"}
	lines := map[string][]string{} // by set
	for _, c := range r.Baselines {
		if lines[c.Set] == nil {
			lines[c.Set] = []string{c.Set, number(c.AUROC + c.Difference)}
		}
		if !slices.Contains(head, c.Baseline) {
			head = append(head, c.Baseline)
		}
		lines[c.Set] = append(lines[c.Set], number(c.AUROC)+", "+c.Model)
	}
	writeLine(b, head, true)
	for _, set := range slices.Sorted(maps.Keys(lines)) {
		writeLine(b, lines[set], false)
	}
}

func (r Report) writeWrong(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Errors\n\nAt most %d ids of each kind: the false alarms with the largest violation, the misses with the smallest. `--examples` writes their texts to a file.\n\n", wrongShown)
	writeLine(b, []string{"set", "false alarms", "misses"}, true)
	for _, row := range r.Sets {
		ids := map[bag.Label][]string{}
		for _, w := range r.Wrong {
			if w.Set == row.Set {
				ids[w.Label] = append(ids[w.Label], w.ID)
			}
		}
		writeLine(b, []string{row.Set, cmp.Or(strings.Join(ids[bag.Compliant], ", "), none), cmp.Or(strings.Join(ids[bag.Violation], ", "), none)}, false)
	}
}

// column is a column of a table of rows.
type column struct {
	head string
	cell func(Row) string
}

func setColumn() column              { return column{"set", func(r Row) string { return r.Set }} }
func valueColumn(head string) column { return column{head, func(r Row) string { return r.Value }} }
func sizeColumn() column {
	return column{"responses", func(r Row) string { return fmt.Sprint(r.Responses) }}
}
func violationsColumn() column {
	return column{"violations", func(r Row) string { return fmt.Sprint(r.Violations) }}
}
func recall() column { return metric("recall at T", "recall_violation") }

func metric(head, name string) column {
	return column{head, func(r Row) string { return r.cell(name, number) }}
}

func falseAlarms() column {
	return column{"false alarms at T", func(r Row) string {
		return r.cell("recall_compliant", func(share float64) string { return percent(1 - share) })
	}}
}

// cell formats a metric with its interval, if it has one.
func (r Row) cell(name string, format func(float64) string) string {
	value, ok := r.Metrics.Metrics[name]
	if !ok {
		return none
	}
	text := format(value)
	if interval, ok := r.Metrics.Intervals[name]; ok {
		bounds := []string{format(interval[0]), format(interval[1])}
		if format(0) > format(1) { // of a complement
			slices.Reverse(bounds)
		}
		text += fmt.Sprintf(" (%s to %s)", bounds[0], bounds[1])
	}
	return text
}

func number(value float64) string { return fmt.Sprintf("%.3f", value) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func writeRows(b *strings.Builder, rows []Row, columns ...column) {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.head
	}
	writeLine(b, cells, true)
	for _, row := range rows {
		for i, c := range columns {
			cells[i] = c.cell(row)
		}
		writeLine(b, cells, false)
	}
}

// writeLine writes a line of a table, and the rule below its head.
func writeLine(b *strings.Builder, cells []string, head bool) {
	for _, cell := range cells {
		b.WriteString("| " + strings.NewReplacer("|", "\\|", "\n", " ").Replace(cell) + " ")
	}
	b.WriteString("|\n")
	if head {
		b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
	}
}
