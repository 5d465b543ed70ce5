package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
)

// Summary is what a report says about responses.
type Summary struct {
	Title     string
	All       Group
	Models    []Group // by version, where the lines name it
	Empty     int
	Truncated int
	Rewards   Distribution
	Lengths   []Group // by the number of utterances
	Fields    []Table
	Steps     []Group // by the policy's step, in order
	Worst     []Response
	Phrases   []Phrase
	// Calibration compares the violation with the labels; nil without any.
	Calibration *Calibration
	// Training has the stages of a training run; nil without one.
	Training []Stage
	// Comparison is with other scores of the same responses; nil without any.
	Comparison *Comparison
}

// Group has the mean of some responses.
type Group struct {
	Name      string
	Responses int
	Flagged   float64 // share
	Reward    float64 // mean
}

// Table has the groups that a property of the responses makes, the most frequent value first.
type Table struct {
	Head   string
	Groups []Group
}

// Phrase is the text of a witness of several flagged responses.
type Phrase struct {
	Text      string
	Responses int
	Violation float64 // mean
}

// The limits of a report.
const (
	mostValues  = 24 // of a field; one with more is no group
	mostSteps   = 40 // bins of the policy's steps
	mostPhrases = 20
	longestText = 400 // code points of a witness
)

// New summarizes responses, if there are any, and lists the worst, at most as many as given.
func New(title string, responses []Response, worst int) Summary {
	s := Summary{Title: title, All: group("all", responses)}
	if len(responses) > 0 {
		s.Rewards = distribution(rewards(responses))
	}
	for _, r := range responses {
		if r.Empty {
			s.Empty++
		}
		if r.Truncated {
			s.Truncated++
		}
	}
	s.Models = groupBy(responses, func(r Response) string { return r.Model })
	s.Lengths = byLength(responses)
	s.Fields = byFields(responses)
	s.Steps = bySteps(responses)
	s.Worst = lowest(responses, worst)
	s.Phrases = phrases(responses)
	s.Calibration = calibrate(responses)
	return s
}

func rewards(responses []Response) []float64 {
	out := make([]float64, len(responses))
	for i, r := range responses {
		out[i] = r.Reward
	}
	return out
}

func group(name string, responses []Response) Group {
	g := Group{Name: name, Responses: len(responses)}
	for _, r := range responses {
		g.Reward += r.Reward / float64(len(responses))
		if !r.Compliant {
			g.Flagged += 1 / float64(len(responses))
		}
	}
	return g
}

// groupBy groups the responses by a value, "" excepted, the most frequent first.
func groupBy(responses []Response, value func(Response) string) (out []Group) {
	by := map[string][]Response{}
	for _, r := range responses {
		if v := value(r); v != "" {
			by[v] = append(by[v], r)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(by)) {
		out = append(out, group(v, by[v]))
	}
	slices.SortStableFunc(out, func(a, b Group) int { return cmp.Compare(b.Responses, a.Responses) })
	return out
}

func byLength(responses []Response) (out []Group) {
	at := 0
	for _, l := range []struct {
		name string
		most int
	}{{"1", 1}, {"2 to 5", 5}, {"6 to 15", 15}, {"16 to 40", 40}, {"more than 40", math.MaxInt}} {
		var within []Response
		for _, r := range responses {
			if r.Utterances > at && r.Utterances <= l.most {
				within = append(within, r)
			}
		}
		if at = l.most; len(within) > 0 {
			out = append(out, group(l.name, within))
		}
	}
	return out
}

func byFields(responses []Response) (out []Table) {
	names := map[string]bool{}
	for _, r := range responses {
		for name := range r.Fields {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		groups := groupBy(responses, func(r Response) string { return r.Fields[name] })
		if len(groups) > 1 && len(groups) <= mostValues {
			out = append(out, Table{name, groups})
		}
	}
	return out
}

// bySteps groups the responses by step, neighboring steps together where there are many.
func bySteps(responses []Response) (out []Group) {
	by := map[float64][]Response{}
	for _, r := range responses {
		if r.Step != nil {
			by[*r.Step] = append(by[*r.Step], r)
		}
	}
	if len(by) < 2 {
		return nil
	}
	steps := slices.Sorted(maps.Keys(by))
	for part := range slices.Chunk(steps, (len(steps)+mostSteps-1)/mostSteps) {
		var within []Response
		for _, step := range part {
			within = append(within, by[step]...)
		}
		name := number(part[0])
		if last := part[len(part)-1]; last != part[0] {
			name += " to " + number(last)
		}
		out = append(out, group(name, within))
	}
	return out
}

func lowest(responses []Response, n int) []Response {
	sorted := slices.DeleteFunc(slices.Clone(responses), func(r Response) bool { return r.Empty })
	slices.SortStableFunc(sorted, func(a, b Response) int { return cmp.Compare(a.Reward, b.Reward) })
	sorted = sorted[:min(n, len(sorted))]
	for i := range sorted {
		sorted[i].Witness = shorten(sorted[i].Witness)
	}
	return sorted
}

// phrases are the witnesses of several flagged responses, regardless of case and spaces, the most frequent first. A
// policy that exploits the reward, or that one habit of it is punished, shows itself as such a phrase.
func phrases(responses []Response) (out []Phrase) {
	by := map[string]*Phrase{}
	for _, r := range responses {
		if r.Compliant || r.Witness == "" {
			continue
		}
		key := strings.ToLower(strings.Join(strings.Fields(r.Witness), " "))
		if by[key] == nil {
			by[key] = &Phrase{Text: shorten(r.Witness)}
		}
		by[key].Responses++
		by[key].Violation += r.Violation
	}
	for _, key := range slices.Sorted(maps.Keys(by)) {
		if p := by[key]; p.Responses > 1 {
			p.Violation /= float64(p.Responses)
			out = append(out, *p)
		}
	}
	slices.SortStableFunc(out, func(a, b Phrase) int { return cmp.Compare(b.Responses, a.Responses) })
	return out[:min(len(out), mostPhrases)]
}

func shorten(text string) string {
	if r := []rune(text); len(r) > longestText {
		return string(r[:longestText]) + "…"
	}
	return text
}

// Distribution describes values by quantiles and a histogram.
type Distribution struct {
	Mean      float64
	Quantiles []Quantile
	Low, High float64 // range of the histogram
	Bins      []int   // of equal width
}

// Quantile is the value below which a share of all lies.
type Quantile struct{ Share, Value float64 }

const histogramBins = 20

// distribution is over [0,1], or over the range of the values where they leave it.
func distribution(values []float64) Distribution {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	d := Distribution{Low: 0, High: 1, Bins: make([]int, histogramBins)}
	if sorted[0] < 0 || sorted[n-1] > 1 {
		d.Low, d.High = sorted[0], sorted[n-1]
	}
	width := max(d.High-d.Low, math.SmallestNonzeroFloat64)
	for _, v := range values {
		d.Mean += v / float64(n)
		d.Bins[min(int((v-d.Low)/width*histogramBins), histogramBins-1)]++
	}
	for _, share := range []float64{0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99} {
		d.Quantiles = append(d.Quantiles, Quantile{share, sorted[min(int(share*float64(n)), n-1)]})
	}
	return d
}

// Calibration compares the violation, read as a probability, with the labels of people.
type Calibration struct {
	Labeled  int
	AUROC    float64 // NaN with labels of one kind
	ECE      float64 // expected calibration error, ten bins
	Accuracy float64 // mean of the shares of violations and of compliant responses that are judged as labeled; NaN as above
	Bins     []CalibrationBin
}

// CalibrationBin has the labeled responses whose violation is in one tenth of [0,1].
type CalibrationBin struct {
	Responses  int
	Violation  float64 // mean
	Violations float64 // share of labels
}

func calibrate(responses []Response) *Calibration {
	const bins = 10
	var scores, costs, decisions []float64 // violations, negated rewards, verdicts
	var truth []bool
	c := &Calibration{Bins: make([]CalibrationBin, bins)}
	for _, r := range responses {
		if r.Label == "" {
			continue
		}
		violation, flagged := r.Label == bag.Violation, 1.0
		if r.Compliant {
			flagged = 0
		}
		scores, costs = append(scores, r.Violation), append(costs, -r.Reward)
		decisions, truth = append(decisions, flagged), append(truth, violation)
		b := &c.Bins[min(int(r.Violation*bins), bins-1)]
		b.Responses++
		b.Violation += r.Violation
		if violation {
			b.Violations++
		}
	}
	if c.Labeled = len(truth); c.Labeled == 0 {
		return nil
	}
	for i := range c.Bins {
		if n := float64(c.Bins[i].Responses); n > 0 {
			c.Bins[i].Violation /= n
			c.Bins[i].Violations /= n
		}
	}
	c.Accuracy = eval.Decide(decisions, truth, 0.5).AvgAcc()
	c.AUROC, c.ECE = eval.AUROC(costs, truth), eval.ECE(scores, truth, bins)
	return c
}
