package paper

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Contradiction is a place in which the paper's numbers do not agree with each other or with its protocol.
type Contradiction struct {
	Table, Method string
	What          string
}

// Contradictions checks the published tables against themselves: each AUC column against its row, each number that is
// printed twice, rows that repeat another method's numbers, bold numbers that are not the best, numbers on SST-2 that no
// three runs on the protocol's test bags can give, and the number of bags of the language models.
func Contradictions(all []Published) []Contradiction {
	return slices.Concat(wrongMeans(all), unequalTwins(all), repeatedRows(all), wrongBold(all), impossible(all), fewBags(all))
}

// row is a method's line in a table.
type row struct {
	table, backbone, metric, method, settings string
}

func (p Published) row() row {
	return row{p.Table, p.Backbone, p.Metric, p.Method, p.Settings.String()}
}

// name is the label of the row in the report.
func (r row) name() string {
	name := title(r.method)
	if r.settings != "" {
		name += " (" + r.settings + ")"
	}
	return name + ", " + metricTitle(r.metric)
}

// rows groups the cells by row, keeping the order of the tables.
func rows(all []Published) (order []row, cells map[row]map[string]Published) {
	cells = map[row]map[string]Published{}
	for _, p := range all {
		if cells[p.row()] == nil {
			cells[p.row()] = map[string]Published{}
			order = append(order, p.row())
		}
		cells[p.row()][p.Column] = p
	}
	return order, cells
}

// wrongMeans finds AUC cells that are not the mean of their row. Cells are rounded or
// truncated to 0.01, so that a difference of 0.01 is not a contradiction.
func wrongMeans(all []Published) []Contradiction {
	var out []Contradiction
	order, cells := rows(all)
	for _, r := range order {
		auc, ok := cells[r][columnAUC]
		if !ok {
			continue
		}
		sum := -auc.Mean
		for _, p := range cells[r] {
			sum += p.Mean
		}
		if mean := sum / float64(len(cells[r])-1); math.Abs(mean-auc.Mean) > 0.0101 {
			out = append(out, Contradiction{r.table, r.name(), fmt.Sprintf("the AUC column has %.2f, the mean of the row is %.2f", auc.Mean, mean)})
		}
	}
	return out
}

// unequalTwins finds numbers that differ between two tables.
func unequalTwins(all []Published) []Contradiction {
	var out []Contradiction
	first := map[string]Published{}
	for _, p := range all {
		key := p.key()
		if twin, ok := first[key]; !ok {
			first[key] = p
		} else if twin.Mean != p.Mean {
			out = append(out, Contradiction{p.Table, p.row().name(), fmt.Sprintf("%s, sigma_micro %s: %.2f here, %.2f in table %s",
				p.Dataset, p.Column, p.Mean, twin.Mean, twin.Table)})
		}
	}
	return out
}

// repeatedRows finds rows of different methods or tables that agree in three columns or more, apart from the numbers
// that a method with constant decisions gets.
func repeatedRows(all []Published) []Contradiction {
	var out []Contradiction
	order, cells := rows(all)
	constant := func(v float64) bool { return v == 50 || v == 66.67 || v == 0 || v == 44.44 }
	for i, a := range order {
		for _, b := range order[:i] {
			if a.method == b.method && a.settings == b.settings && a.backbone == b.backbone {
				continue // one result, printed twice
			}
			same := 0
			for column, p := range cells[a] {
				if q, ok := cells[b][column]; ok && p.Mean == q.Mean && !constant(p.Mean) {
					same++
				}
			}
			if same >= 3 {
				out = append(out, Contradiction{a.table, a.name(), fmt.Sprintf("%d numbers are also those of %s in table %s", same, b.name(), b.table)})
			}
		}
	}
	return out
}

// wrongBold finds bold numbers that another method of the same table beats.
func wrongBold(all []Published) []Contradiction {
	var out []Contradiction
	type column struct{ table, metric, dataset, column string }
	best := map[column]Published{}
	for _, p := range all {
		at := column{p.Table, p.Metric, p.Dataset, p.Column}
		if was, ok := best[at]; !ok || p.Mean > was.Mean {
			best[at] = p
		}
	}
	for _, p := range all {
		if top := best[column{p.Table, p.Metric, p.Dataset, p.Column}]; p.Bold && top.Mean > p.Mean {
			out = append(out, Contradiction{p.Table, p.row().name(), fmt.Sprintf("%s: %.2f is bold, %s has %.2f",
				columnTitle(p.Column), p.Mean, title(top.Method), top.Mean)})
		}
	}
	return out
}

// sst2TestBags is the number of test bags of each class that the protocol makes of SST-2, by sigma_micro.
func sst2TestBags() map[int]int { return map[int]int{2: 181, 4: 101, 6: 69, 8: 53, 10: 43} }

// impossible finds AvgAcc cells of SST-2 that are not an integer number of correct decisions over three runs (the GRIM test
// of Brown and Heathers 2017).
func impossible(all []Published) []Contradiction {
	var out []Contradiction
	bags := sst2TestBags()
	for p, micro := range sst2Cells(all) {
		if possible(p.Mean, bags[micro]) {
			continue
		}
		what := fmt.Sprintf("%s: no three runs on %d + %d test bags average to %.2f", columnTitle(p.Column), bags[micro], bags[micro], p.Mean)
		var fits []string
		for _, other := range sortedKeys(bags) {
			if possible(p.Mean, bags[other]) {
				fits = append(fits, strconv.Itoa(other))
			}
		}
		if len(fits) > 0 {
			what += "; possible at sigma_micro " + strings.Join(fits, " and ")
		}
		out = append(out, Contradiction{p.Table, p.row().name(), what})
	}
	return out
}

// sst2Cells yields the AvgAcc of trained methods on SST-2 with their sigma_micro.
func sst2Cells(all []Published) iter.Seq2[Published, int] {
	return func(yield func(Published, int) bool) {
		for _, p := range all {
			micro, err := strconv.Atoi(p.Column)
			if err == nil && p.Dataset == SST2 && p.Metric == avgAcc && p.Backbone != "" && !yield(p, micro) {
				return
			}
		}
	}
}

// grim counts the AvgAcc cells of SST-2, those that are possible, and those that random numbers would have
// possible: the share of all two-digit percentages.
func grim(all []Published) (cells, fitting int, chance float64) {
	bags := sst2TestBags()
	random := map[int]float64{}
	for micro, n := range bags {
		for hundredths := range 10000 {
			if possible(float64(hundredths)/100, n) {
				random[micro] += 1.0 / 10000
			}
		}
	}
	for p, micro := range sst2Cells(all) {
		cells++
		chance += random[micro]
		if possible(p.Mean, bags[micro]) {
			fitting++
		}
	}
	return cells, fitting, chance
}

// possible reports whether three runs on that many test bags of each class can average to a percentage.
func possible(percent float64, bags int) bool {
	unit := 100 / float64(3*2*bags)
	return math.Abs(math.Round(percent/unit)*unit-percent) <= 0.0051
}

// fewBags finds data sets on which all AvgAcc of the language models are integer numbers of correct replies to fewer than
// 50 questions, where chance makes that unlikely; the protocol gives more test bags than that.
func fewBags(all []Published) []Contradiction {
	answers := map[string][]float64{}
	for _, p := range all {
		if strings.HasPrefix(p.Method, JudgePrefix) && p.Metric == avgAcc {
			answers[p.Dataset] = append(answers[p.Dataset], p.Mean)
		}
	}
	var out []Contradiction
	for _, dataset := range sortedKeys(answers) {
		for n := 1; n < 50; n++ {
			unit := 100 / float64(n)
			if !slices.ContainsFunc(answers[dataset], func(v float64) bool { return math.Abs(math.Round(v/unit)*unit-v) > 0.0051 }) {
				out = append(out, Contradiction{"llm", "all language models, AvgAcc", fmt.Sprintf("%s: every number corresponds to an integer number of correct replies on %d bags; the protocol has more", dataset, n)})
				break
			}
		}
	}
	return out
}

func columnTitle(column string) string {
	switch column {
	case columnAUC:
		return "AUC"
	case "all":
		return "all"
	}
	return "sigma_micro " + column
}

func metricTitle(metric string) string {
	switch metric {
	case avgAcc:
		return "AvgAcc"
	case f1Compliant:
		return "F1"
	}
	return metric
}
