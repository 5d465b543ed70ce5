package paper

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// recipe holds what all runs of one table share, so that its rows differ only in the method.
type recipe struct {
	dataset       string
	macro         int
	backbone      string
	rate          float64
	epochs, batch int
	bags          int
}

func recipeOf(s Spec) recipe {
	return recipe{s.Dataset, s.SigmaMacro, s.Backbone, s.Rate, s.Epochs, s.Batch, s.Bags}
}

// compareRecipes orders the tables: by data set, sigma_macro and backbone, larger runs first.
func compareRecipes(a, b recipe) int {
	place := func(dataset string) int {
		if at := slices.Index(Datasets(), dataset); at >= 0 {
			return at
		}
		return len(Datasets()) // ready-made bags
	}
	capped := func(bags int) int { return cmp.Or(-bags, math.MinInt) } // 0 means all of them
	return cmp.Or(
		cmp.Compare(place(a.dataset), place(b.dataset)), cmp.Compare(a.dataset, b.dataset), cmp.Compare(a.macro, b.macro), last(a.backbone == "", b.backbone == ""),
		cmp.Compare(a.backbone, b.backbone),
		cmp.Compare(b.epochs, a.epochs), cmp.Compare(capped(a.bags), capped(b.bags)), cmp.Compare(a.rate, b.rate), cmp.Compare(a.batch, b.batch))
}

// last sorts true after false.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// title is the heading of the tables of a recipe.
func (r recipe) title() string {
	name := datasetTitle(r.dataset)
	if r.macro > 0 {
		name += fmt.Sprintf(", sigma_macro %d", r.macro)
	}
	if r.backbone == "" {
		return name + ", language models as judges"
	}
	name += fmt.Sprintf(", %s, learning rate %s, %s, batch %d", r.backbone, number(r.rate), plural(r.epochs, "epoch"), r.batch)
	if r.bags > 0 {
		name += fmt.Sprintf(", at most %d anomalous training bags", r.bags)
	}
	return name
}

// slug is the recipe in the name of a file.
func (r recipe) slug() string {
	name := fmt.Sprintf("%s-macro%d-%s-lr%s-epochs%d-batch%d", r.dataset, r.macro, r.backbone, number(r.rate), r.epochs, r.batch)
	if r.bags > 0 {
		name += fmt.Sprintf("-bags%d", r.bags)
	}
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
}

// series is a method with its settings over the sweep of sigma_micro.
type series struct {
	method   string
	settings Settings
	changed  string           // settings that are not the defaults
	at       map[int][]Record // by sigma_micro, in the order of the seeds
}

// group holds all results of a recipe.
type group struct {
	recipe
	series []series // in the order of Methods, the default settings of each first
	sigmas []int    // ascending
}

// groups sorts records into tables. It omits those with a random backbone, which measure no method.
func groups(records []Record) []group {
	type line struct{ method, settings string }
	byRecipe := map[recipe]map[line]*series{}
	for _, r := range records {
		if r.RandomBackbone {
			continue
		}
		r = r.withDecision()
		lines := byRecipe[recipeOf(r.Spec)]
		if lines == nil {
			lines = map[line]*series{}
			byRecipe[recipeOf(r.Spec)] = lines
		}
		key := line{r.Spec.Method, r.Spec.Settings.String()}
		if lines[key] == nil {
			lines[key] = &series{method: r.Spec.Method, settings: r.Spec.Settings, changed: difference(r.Spec), at: map[int][]Record{}}
		}
		lines[key].at[r.Spec.SigmaMicro] = append(lines[key].at[r.Spec.SigmaMicro], r)
	}
	var out []group
	for _, at := range slices.SortedFunc(maps.Keys(byRecipe), compareRecipes) {
		g := group{recipe: at}
		sigmas := map[int]bool{}
		for _, s := range byRecipe[at] {
			for sigma, runs := range s.at {
				sigmas[sigma] = true
				slices.SortFunc(runs, func(a, b Record) int { return cmp.Compare(a.Spec.Seed, b.Spec.Seed) })
			}
			g.series = append(g.series, *s)
		}
		g.sigmas = slices.Sorted(maps.Keys(sigmas))
		slices.SortFunc(g.series, compareSeries)
		out = append(out, g)
	}
	return out
}

func compareSeries(a, b series) int {
	place := func(s series) int {
		if at := slices.Index(Methods(), s.method); at >= 0 {
			return at
		}
		return len(Methods()) // judges
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.method, b.method), cmp.Compare(a.changed, b.changed))
}

// defaults are the rows of the main tables.
func (g group) defaults() []series {
	return slices.DeleteFunc(slices.Clone(g.series), func(s series) bool { return s.changed != "" })
}

// of returns the rows of one method with all its settings.
func (g group) of(method string) []series {
	return slices.DeleteFunc(slices.Clone(g.series), func(s series) bool { return s.method != method })
}

// sweep is the paper's sigma_micro for a data set, nil for those that it does not have.
func sweep(dataset string) []int {
	switch dataset {
	case SST2, SST2Max, Sentiment140:
		return []int{2, 4, 6, 8, 10}
	case IMDB, Amazon:
		return []int{2, 3, 4, 5}
	}
	return nil
}

// stat is a mean over seeds, in percent.
type stat struct {
	mean, sd float64 // sd of the sample; NaN for fewer than two
	n        int
}

// over returns the statistic of a metric, false when no run has it.
func over(runs []Record, metric string) (stat, bool) {
	return statOf(values(runs, func(r Record) (float64, bool) { v, ok := r.Metrics[metric]; return v, ok }))
}

func values(runs []Record, of func(Record) (float64, bool)) []float64 {
	var out []float64
	for _, r := range runs {
		if v, ok := of(r); ok {
			out = append(out, 100*v)
		}
	}
	return out
}

func statOf(values []float64) (stat, bool) {
	if len(values) == 0 {
		return stat{}, false
	}
	s := stat{n: len(values), sd: math.NaN()}
	for _, v := range values {
		s.mean += v / float64(s.n)
	}
	if s.n > 1 {
		squares := 0.0
		for _, v := range values {
			squares += (v - s.mean) * (v - s.mean)
		}
		s.sd = math.Sqrt(squares / float64(s.n-1))
	}
	return s, true
}

// area is the mean over the paper's whole sweep, false for an incomplete row.
func (s series) area(dataset, metric string) (float64, bool) {
	sum, sigmas := 0.0, sweep(dataset)
	for _, sigma := range sigmas {
		at, ok := over(s.at[sigma], metric)
		if !ok {
			return 0, false
		}
		sum += at.mean
	}
	return sum / float64(len(sigmas)), len(sigmas) > 0
}

// ranked reports whether a row takes part in the comparison: the oracle sees labels that no other method sees, and a
// judge was not trained on the bags.
func (s series) ranked() bool { return s.method != Oracle && !strings.HasPrefix(s.method, JudgePrefix) }

func datasetTitle(dataset string) string {
	switch dataset {
	case SST2:
		return "SST-2"
	case SST2Max:
		return "SST-2, all bags"
	case Sentiment140:
		return "Sentiment140"
	case IMDB:
		return "IMDB"
	case Amazon:
		return "Amazon"
	case IMDBSentences:
		return "IMDB, sentences of real reviews"
	}
	return "Ready-made bags " + strings.TrimPrefix(dataset, FilesPrefix)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
