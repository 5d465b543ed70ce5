package paper

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
)

// published.csv holds every result table of the paper, cell by cell, as it was printed.
//
//go:embed published.csv
var publishedCSV string

// The backbones of the paper's tables.
const (
	roberta = "roberta-base"
	deberta = "deberta"
)

// columnAUC is the column of the paper that holds the mean over its sweep of sigma_micro.
const columnAUC = "auc"

// Published is one number of the paper. Mean and SD are in percent, as printed.
type Published struct {
	Table      string // "sst2", "sst2-f1", "sentiment140", "imdb", "amazon", "sst2-macro5", "deberta", ...
	Dataset    string
	SigmaMacro int
	Backbone   string // "" for the language models that are asked
	Metric     string // avg_acc or f1_compliant: the authors' code takes the normal class as the positive one of F1
	Method     string
	Settings   Settings // what an ablation changes; nil for the method itself
	Column     string   // sigma_micro, "auc" for the mean over the sweep, "all" where there is none
	Mean       float64
	SD         float64 // over three seeds; 0 where the paper has none, see HasSD
	HasSD      bool
	Bold       bool // printed as the best
}

// PublishedResults returns all numbers of the paper's result tables, in the order of the tables.
func PublishedResults() ([]Published, error) {
	rows, err := csv.NewReader(strings.NewReader(publishedCSV)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("paper: published.csv: %w", err)
	}
	var out []Published
	for i, row := range rows[1:] {
		p, err := parsePublished(row)
		if err != nil {
			return nil, fmt.Errorf("paper: published.csv: line %d: %w", i+2, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func parsePublished(row []string) (Published, error) {
	p := Published{
		Table: row[0], Dataset: row[1], Backbone: row[3], Metric: row[4], Method: row[5], Column: row[7],
		HasSD: row[9] != "", Bold: row[10] == "bold",
	}
	var err error
	if p.SigmaMacro, err = strconv.Atoi(row[2]); err != nil {
		return p, err
	}
	if p.Mean, err = strconv.ParseFloat(row[8], 64); err != nil {
		return p, err
	}
	if p.HasSD {
		if p.SD, err = strconv.ParseFloat(row[9], 64); err != nil {
			return p, err
		}
	}
	if row[6] != "" {
		p.Settings, err = ParseSettings(row[6])
	}
	return p, err
}

// published looks up what the paper reports for a run.
type published map[string]Published

func newPublished() (published, error) {
	all, err := PublishedResults()
	if err != nil {
		return nil, err
	}
	index := published{}
	for _, p := range all {
		if _, twice := index[p.key()]; !twice { // the table of the number, not one that repeats it
			index[p.key()] = p
		}
	}
	return index, nil
}

// key is the same for a number that is printed in two tables.
func (p Published) key() string {
	return publishedKey(p.Dataset, p.SigmaMacro, p.Backbone, p.Metric, p.Method, p.Settings, p.Column)
}

func publishedKey(dataset string, macro int, backbone, metric, method string, settings Settings, column string) string {
	return strings.Join([]string{dataset, strconv.Itoa(macro), backbone, metric, method, settings.String(), column}, "|")
}

// find looks for the number of a method at a sigma_micro, or for its mean over the sweep. Backbones of the DeBERTa
// family are compared with the paper's DeBERTa, all others with its RoBERTa-base.
func (p published) find(dataset string, macro int, backbone, metric, method string, settings Settings, column string) (Published, bool) {
	family := roberta
	if strings.Contains(strings.ToLower(backbone), deberta) {
		family = deberta
	}
	if strings.HasPrefix(method, JudgePrefix) {
		family = ""
	}
	cell, ok := p[publishedKey(dataset, macro, family, metric, method, settings, column)]
	return cell, ok
}
