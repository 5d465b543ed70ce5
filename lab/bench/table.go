package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"assay/lab/stats"
)

// WriteTable writes the records as Markdown: a heading and a table for each model and case, a row for each server and
// protocol with the medians over the repetitions, then the failures. The last of several records with the same key counts.
func WriteTable(w io.Writer, records []Record) error {
	rows := group(latest(records))
	var b strings.Builder
	var heading [2]string
	for _, row := range rows {
		if at := [2]string{row.Model, row.Case}; at != heading {
			heading = at
			fmt.Fprintf(&b, "\n### %s, %s\n\n%s, %d of %d cores, %s.\n\n", row.Model, row.Case, cmp.Or(row.Processor, "unknown processor"),
				row.Threads, row.Cores, row.Date.Format("2006-01-02"))
			b.WriteString("| server | protocol | runs | responses/s | tokens/s | GFLOP/s | p50 ms | p99 ms | CPU s per response | peak RSS, GB | outside the model | ranks | others' cores |\n")
			b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", row.Server, row.Protocol, len(row.runs), strings.Join(row.cells(), " | "))
	}
	writeNotes(&b, records)
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// tableRow is the runs of one server on one case.
type tableRow struct {
	Record // the first, for what all have in common
	runs   []Record
}

func (r tableRow) cells() []string {
	cell := func(format string, of func(Record) float64) string {
		return fmt.Sprintf(format, r.median(of))
	}
	outside, ranks := "", ""
	if r.ModelCPU > 0 {
		outside = cell("%.1f %%", func(x Record) float64 { return 100 * (1 - x.ModelCPU/x.CPU) })
	}
	if r.Agreement != nil {
		ranks = fmt.Sprintf("%.4f", *r.Agreement)
	}
	return []string{
		cell("%.1f", func(x Record) float64 { return float64(x.Responses) / x.Seconds }),
		cell("%.0f", func(x Record) float64 { return float64(x.Tokens) / x.Seconds }),
		cell("%.1f", func(x Record) float64 { return x.GFLOP / x.Seconds }),
		cell("%.1f", func(x Record) float64 { return x.P50 }),
		cell("%.1f", func(x Record) float64 { return x.P99 }),
		cell("%.4f", func(x Record) float64 { return x.CPU / float64(x.Responses) }),
		cell("%.2f", func(x Record) float64 { return float64(x.Peak) / 1e9 }),
		outside, ranks,
		cell("%.2f", func(x Record) float64 { return x.OtherCPU / x.Seconds }),
	}
}

func (r tableRow) median(of func(Record) float64) float64 {
	values := make([]float64, len(r.runs))
	for i, run := range r.runs {
		values[i] = of(run)
	}
	return stats.Median(values)
}

// latest drops what failed, and all but the last record of a key.
func latest(records []Record) []Record {
	at := map[Key]int{}
	var out []Record
	for _, r := range records {
		if !r.measured() {
			continue
		}
		if i, ok := at[r.Key]; ok {
			out[i] = r
			continue
		}
		at[r.Key], out = len(out), append(out, r)
	}
	return out
}

// group joins the repetitions, and the rows of each table, in the order of their first records.
func group(records []Record) []tableRow {
	type table struct{ model, case_, work string }
	var order []table
	tables := map[table][]tableRow{}
	for _, r := range records {
		t := table{r.Model, r.Case, r.Work}
		if _, ok := tables[t]; !ok {
			order = append(order, t)
		}
		same := func(row tableRow) bool {
			return row.Server == r.Server && row.Protocol == r.Protocol && row.Threads == r.Threads
		}
		if i := slices.IndexFunc(tables[t], same); i >= 0 {
			tables[t][i].runs = append(tables[t][i].runs, r)
		} else {
			tables[t] = append(tables[t], tableRow{r, []Record{r}})
		}
	}
	var rows []tableRow
	for _, t := range order {
		rows = append(rows, tables[t]...)
	}
	return rows
}

// writeNotes lists the failures that no later run made good, and the versions of the servers.
func writeNotes(b *strings.Builder, records []Record) {
	made := &Records{all: records}
	var notes []string
	versions := map[string]string{}
	for _, r := range records {
		if r.Error != "" && !made.Has(r.Key) {
			what := strings.TrimSpace(fmt.Sprintf("%s: %s %s", r.Model, r.Server, r.Protocol))
			why := strings.ReplaceAll(r.Error, "\n", "\n  ") // an error may end with what the server said last
			notes = append(notes, fmt.Sprintf("* %s, %s, %d requests failed: %s", what, r.Case, r.Failed, why))
		}
		for name, version := range r.Versions {
			versions[name] = version
		}
	}
	if len(notes) > 0 {
		slices.Sort(notes)
		fmt.Fprintf(b, "\nFailed:\n\n%s\n", strings.Join(slices.Compact(notes), "\n"))
	}
	if len(versions) > 0 {
		var all []string
		for name, version := range versions {
			all = append(all, name+" "+version)
		}
		slices.Sort(all)
		fmt.Fprintf(b, "\nVersions: %s.\n", strings.Join(all, ", "))
	}
}
