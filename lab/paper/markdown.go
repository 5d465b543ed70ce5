package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// table is a Markdown table. The first column is text; the others are numbers unless prose is set.
type table struct {
	head  []string
	rows  [][]string
	prose bool
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(t.head)
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = "---:"
		if t.prose {
			rule[i] = "---"
		}
	}
	rule[0] = "---"
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// dropEmpty removes columns with that heading and without a number.
func (t *table) dropEmpty(heading string) {
	for column := len(t.head) - 1; column > 0; column-- {
		filled := slices.ContainsFunc(t.rows, func(row []string) bool { return row[column] != none })
		if t.head[column] != heading || filled {
			continue
		}
		t.head = slices.Delete(t.head, column, column+1)
		for i := range t.rows {
			t.rows[i] = slices.Delete(t.rows[i], column, column+1)
		}
	}
}

// cell formats a statistic in percent, as the paper does.
func (s stat) cell(bold bool) string {
	text := fmt.Sprintf("%.2f", s.mean)
	if bold {
		text = "**" + text + "**"
	}
	if !math.IsNaN(s.sd) {
		text += fmt.Sprintf(" ± %.2f", s.sd)
	}
	return text
}

// cell formats a number of the paper.
func (p Published) cell() string {
	if p.HasSD {
		return fmt.Sprintf("%.2f ± %.2f", p.Mean, p.SD)
	}
	return fmt.Sprintf("%.2f", p.Mean)
}

// none is the text of a cell without a number.
const none = "–"

// best holds the maximum rounded value of each column, so that equal printed values are equally bold.
type best map[string]float64

func (b best) see(column string, v float64) {
	v = math.Round(100*v) / 100
	if was, ok := b[column]; !ok || v > was {
		b[column] = v
	}
}

func (b best) is(column string, v float64) bool {
	top, ok := b[column]
	return ok && math.Round(100*v)/100 == top
}
