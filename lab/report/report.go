// Package report summarizes how well a model scores labeled sets of responses: metrics of each set and of groups of
// responses, operating points, precisions, and a comparison with baselines.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
)

// Bag is a labeled response after scoring.
type Bag struct {
	ID, Text string
	Fields   map[string]string // what else the set says about it, by field
	Harmless bool              // its labels say that it complies with every aspect, not only with some
	eval.BagScores
}

// Set is a set of responses. All are judged at the threshold of the input.
type Set struct {
	Name    string
	Partial bool // compliant responses are labeled for some aspects only
	Skipped int  // responses whose labels say nothing about the aspects of the model
	Bags    []Bag
	Aspects []Aspect // of a model with several, those that the set labels
}

// Aspect has the responses of a set that are labeled for an aspect.
type Aspect struct {
	Name      string
	Threshold float64
	Bags      []eval.BagScores
}

// Precision compares a dtype of the computation with the first one.
type Precision struct {
	Name      string             `json:"precision"`
	Error     string             `json:"error,omitzero"` // why the model cannot use it
	AUROC     map[string]float64 `json:"auroc,omitzero"` // by set
	MaxReward float64            `json:"largest_reward_difference"`
}

// Baseline is a classifier that needs no encoder.
type Baseline struct {
	Name   string
	Scores map[string][]float64 // of the responses of each set, in their order
}

// Header identifies the model and the conditions.
type Header struct {
	Model       string  `json:"model"`
	Version     string  `json:"version"`
	Date        string  `json:"date"`
	Precision   string  `json:"precision"`
	Threshold   float64 `json:"threshold"`
	LengthSlope float64 `json:"length_slope,omitzero"` // of a model with one aspect
	Resamples   int     `json:"resamples"`
	NoBaselines string  `json:"baselines_missing,omitzero"` // why there are none
}

// Input is what a report is about.
type Input struct {
	Header
	Sets       []Set
	Harmless   []Bag // for the operating points; nil: those of the sets
	Precisions []Precision
	Baselines  []Baseline
	Seed       uint64 // of the bootstrap
}

// Row has the metrics of some responses of a set, or of all sets.
type Row struct {
	Set        string      `json:"set,omitzero"`
	Field      string      `json:"field,omitzero"`
	Value      string      `json:"value,omitzero"`
	Partial    bool        `json:"partial,omitzero"`
	Skipped    int         `json:"skipped,omitzero"`
	Responses  int         `json:"responses"`
	Violations int         `json:"violations"`
	Metrics    eval.Report `json:"metrics"`
}

// Report has all numbers.
type Report struct {
	Header
	Sets            []Row            `json:"sets"`
	Aspects         []Row            `json:"aspects"`
	Groups          []Row            `json:"groups"`
	Lengths         []Row            `json:"lengths"`
	Terms           []Row            `json:"identity_terms"` // the last is of all harmless responses
	OperatingPoints []OperatingPoint `json:"operating_points"`
	Precisions      []Precision      `json:"precisions"`
	Baselines       []Comparison     `json:"baselines"`
	Wrong           []Wrong          `json:"wrong"`
}

// wrongShown is the maximum number of errors of each kind and set that a report lists.
const wrongShown = 10

// New measures.
func New(in Input) (Report, error) {
	r := Report{Header: in.Header, Precisions: in.Precisions}
	intervals := eval.Bootstrap{Resamples: in.Resamples, Seed: in.Seed}
	var failed error
	measure := func(row Row, bags []eval.BagScores, threshold float64, intervals eval.Bootstrap) Row {
		row.Responses = len(bags)
		for _, b := range bags {
			if b.Label == bag.Violation {
				row.Violations++
			}
		}
		metrics, err := eval.Evaluate(bags, threshold, intervals)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s %s %s: %w", row.Set, row.Field, row.Value, err))
		}
		row.Metrics = metrics
		return row
	}
	grouped := func(set string, g []group) (rows []Row) {
		for _, g := range g {
			rows = append(rows, measure(Row{Set: set, Field: g.field, Value: g.value}, scores(g.bags), in.Threshold, eval.Bootstrap{}))
		}
		return rows
	}
	var all []Bag
	for _, s := range in.Sets {
		if len(s.Bags) > 0 { // else only aspects without weight are labeled
			row := Row{Set: s.Name, Partial: s.Partial, Skipped: s.Skipped}
			r.Sets = append(r.Sets, measure(row, scores(s.Bags), in.Threshold, intervals))
		}
		for _, a := range s.Aspects {
			r.Aspects = append(r.Aspects, measure(Row{Set: s.Name, Field: "aspect", Value: a.Name}, a.Bags, a.Threshold, intervals))
		}
		r.Groups = append(r.Groups, grouped(s.Name, byFields(s.Bags))...)
		all = append(all, s.Bags...)
	}
	unclear := func(b Bag) bool { return !b.Harmless && b.Label == bag.Compliant }
	r.Lengths = grouped("", byLength(slices.DeleteFunc(slices.Clone(all), unclear)))
	harmless := slices.DeleteFunc(all, func(b Bag) bool { return !b.Harmless })
	r.Terms = grouped("", byTerm(harmless))
	if in.Harmless != nil {
		harmless = in.Harmless
	}
	r.OperatingPoints = operatingPoints(harmless, in.Sets)
	r.Baselines = compare(in)
	for _, w := range WrongOf(in.Sets, in.Threshold, wrongShown) {
		w.Text = ""
		r.Wrong = append(r.Wrong, w)
	}
	return r, failed
}

func scores(bags []Bag) []eval.BagScores {
	out := make([]eval.BagScores, len(bags))
	for i, b := range bags {
		out[i] = b.BagScores
	}
	return out
}

// Wrong is a response that is judged wrongly.
type Wrong struct {
	Set       string    `json:"set"`
	ID        string    `json:"id"`
	Label     bag.Label `json:"label"`
	Violation float64   `json:"violation"` // corrected for the number of utterances, if the model does that
	Text      string    `json:"text,omitzero"`
}

// WrongOf returns for each set at most n compliant responses that are flagged, the largest violation first, and n
// violations that are not, the smallest first.
func WrongOf(sets []Set, threshold float64, n int) (out []Wrong) {
	for _, s := range sets {
		var alarms, misses []Wrong
		for _, b := range s.Bags {
			w := Wrong{Set: s.Name, ID: b.ID, Label: b.Label, Violation: b.Score(), Text: b.Text}
			switch flagged := w.Violation > threshold; {
			case flagged && b.Label == bag.Compliant:
				alarms = append(alarms, w)
			case !flagged && b.Label == bag.Violation:
				misses = append(misses, w)
			}
		}
		ascending := func(a, b Wrong) int { return cmp.Compare(a.Violation, b.Violation) }
		slices.SortStableFunc(alarms, func(a, b Wrong) int { return ascending(b, a) })
		slices.SortStableFunc(misses, ascending)
		out = append(out, alarms[:min(n, len(alarms))]...)
		out = append(out, misses[:min(n, len(misses))]...)
	}
	return out
}

// group is the responses with one value of a field.
type group struct {
	field, value string
	bags         []Bag
}

// byFields groups by each field that a response has, in alphabetical order.
func byFields(bags []Bag) (out []group) {
	by := map[[2]string][]Bag{}
	for _, b := range bags {
		for field, value := range b.Fields {
			by[[2]string{field, value}] = append(by[[2]string{field, value}], b)
		}
	}
	keys := slices.SortedFunc(maps.Keys(by), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		out = append(out, group{key[0], key[1], by[key]})
	}
	return out
}

// byLength groups by the number of words.
func byLength(bags []Bag) (out []group) {
	lengths := []struct {
		name string
		max  int
	}{{"1-20", 20}, {"21-60", 60}, {"61-150", 150}, {"151-400", 400}, {"401-1000", 1000}, {"more than 1000", 1 << 62}}
	at := 0
	for _, length := range lengths {
		var within []Bag
		for _, b := range bags {
			if n := words(b.Text); n > at && n <= length.max {
				within = append(within, b)
			}
		}
		if at = length.max; len(within) > 0 {
			out = append(out, group{"words", length.name, within})
		}
	}
	return out
}

func words(text string) int { return len(strings.Fields(text)) }
