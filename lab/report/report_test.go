package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
)

// scored is a response of one utterance; those whose id starts with v violate.
func scored(id, text string, violation float64, fields ...string) Bag {
	b := Bag{ID: id, Text: text, Harmless: !strings.HasPrefix(id, "v"), BagScores: eval.BagScores{Label: bag.Compliant, Violations: []float64{violation}}}
	if strings.HasPrefix(id, "v") {
		b.Label = bag.Violation
	}
	if len(fields) == 2 {
		b.Fields = map[string]string{fields[0]: fields[1]}
	}
	return b
}

func TestGroups(t *testing.T) {
	long := strings.Repeat("word ", 60)
	bags := []Bag{
		scored("a", "A woman reads.", 0, "category", "insult"), scored("b", long+"woman.", 0, "spelling", "leet"),
		scored("c", "MUSLIMS, and women.", 0, "category", "hate"), scored("d", long, 0), scored("e", "The blackboard.", 0, "category", "hate"),
		scored("f", "", 0),
	}
	for name, c := range map[string]struct {
		groups []group
		want   []string
	}{
		"fields":  {byFields(bags), []string{"category hate: ce", "category insult: a", "spelling leet: b"}},
		"lengths": {byLength(bags), []string{"words 1-20: ace", "words 21-60: d", "words 61-150: b"}},
		"terms": {byTerm(bags), []string{
			"term woman, women: abc", "term Muslim, Muslims: c", "term any of these: abc", "term all harmless responses: abcdef",
		}},
		"no terms": {byTerm(nil), nil},
	} {
		var got []string
		for _, g := range c.groups {
			line := fmt.Sprintf("%s %s: ", g.field, g.value)
			for _, b := range g.bags {
				line += b.ID
			}
			got = append(got, line)
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestOperatingPoints(t *testing.T) {
	var harmless []Bag
	for i := range 100 {
		harmless = append(harmless, scored(fmt.Sprint("c", i), "", float64(i)/100))
	}
	points := operatingPoints(harmless, []Set{
		{Name: "a", Bags: []Bag{scored("v1", "", 0.945), scored("v2", "", 0.94)}}, {Name: "b", Bags: harmless},
	})
	require.Len(t, points, 3)
	for i, want := range []OperatingPoint{
		{Target: 0.05, Threshold: 0.94, FalseAlarms: 0.05}, {Target: 0.02, Threshold: 0.97, FalseAlarms: 0.02}, {Target: 0.005, Threshold: 0.99},
	} {
		want.Harmless, want.Recall = 100, map[string]float64{"a": 0}
		if i == 0 {
			want.Recall["a"] = 0.5 // a score at the threshold is not flagged
		}
		require.InDelta(t, want.FalseAlarms, points[i].FalseAlarms, 1e-12)
		points[i].FalseAlarms = want.FalseAlarms
		require.Equal(t, want, points[i])
	}
	require.Empty(t, operatingPoints(nil, nil))
}

// exampleInput has two sets: in one the model ranks perfectly and a baseline the wrong way around; the other has one label.
func exampleInput() Input {
	mixed := Set{Name: "mixed", Partial: true, Skipped: 3}
	reversed := Baseline{Name: "reversed", Scores: map[string][]float64{"other": {0}}}
	for i := range 20 {
		id, text, violation := fmt.Sprint("c", i), "Fine | text.", 0.1
		if i%2 == 0 {
			id, text, violation = fmt.Sprint("v", i), "A bad text of some women.", 0.9
		}
		mixed.Bags = append(mixed.Bags, scored(id, text, violation, "category", "a|b"))
		reversed.Scores["mixed"] = append(reversed.Scores["mixed"], -violation)
	}
	mixed.Bags[0].Violations, mixed.Bags[1].Violations = []float64{0.2}, []float64{0.8} // a miss and a false alarm
	return Input{
		Header:     Header{Model: "tiny", Version: "tiny-1", Date: "2026-01-31", Precision: "fp32", Threshold: 0.5, Resamples: 100},
		Sets:       []Set{mixed, {Name: "other", Bags: []Bag{scored("v", "Bad.", 0.9)}}},
		Precisions: []Precision{{Name: "fp32", AUROC: map[string]float64{"mixed": 0.9}}, {Name: "int8", Error: "not on this processor"}},
		Baselines:  []Baseline{reversed},
	}
}

func TestReport(t *testing.T) {
	r, err := New(exampleInput())
	require.NoError(t, err)
	require.Equal(t, []int{20, 1}, []int{r.Sets[0].Responses, r.Sets[1].Responses})
	require.InDelta(t, 0.9, r.Sets[0].Metrics.Metrics["recall_violation"], 1e-12)
	require.Contains(t, r.Sets[0].Metrics.Intervals, "bag_auroc")
	require.Len(t, r.Baselines, 2, "none on a set of one label")
	unclear := exampleInput()
	unclear.Sets[0].Bags[1].Harmless = false // the false alarm
	other, err := New(unclear)
	require.NoError(t, err)
	require.Equal(t, 20, other.Sets[0].Responses)
	require.Equal(t, 20, other.Lengths[0].Responses, "what may violate another rule is no false alarm")
	require.Equal(t, 9, other.Terms[0].Responses)
	require.Equal(t, 9, other.OperatingPoints[0].Harmless)
	require.Equal(t, Better, r.Baselines[0].Model)
	require.Equal(t, lengthBaseline, r.Baselines[1].Baseline)
	require.Equal(t, 1.0, r.Baselines[1].AUROC, "violations are longer here")
	require.Equal(t, []Wrong{{"mixed", "c1", bag.Compliant, 0.8, ""}, {"mixed", "v0", bag.Violation, 0.2, ""}}, r.Wrong)
	require.Equal(t, "Fine | text.", WrongOf(exampleInput().Sets, 0.5, 1)[0].Text)
	data, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(data)+r.Markdown(), "bad text", "texts of sets may not be published")
}

func TestMarkdown(t *testing.T) {
	r, err := New(exampleInput())
	require.NoError(t, err)
	text := r.Markdown()
	for _, line := range []string{
		"# Report on tiny",
		"| other | 1 | 1 | – | 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) | – | 0.100 (0.100 to 0.100) | – | – |",
		"| mixed | a\\|b | 20 | 10 | 0.990 | 0.900 | 10.0 % |",
		"| 1-20 | 21 | 11 | 0.909 | 10.0 % |",
		"| all harmless responses | 10 | 10.0 % |",
		"| 5.0 % | 0.8000 | 0.0 % | 0.900 | 1.000 |",
		"| int8 | not on this processor | – |",
		"| set | model | reversed | length |",
		"| mixed | c1 | v0 |", "| other | – | – |",
		"mixed: some compliant responses are labeled for some aspects only.",
		"mixed: the labels of 3 responses say nothing",
	} {
		require.Contains(t, text, line)
	}
	columns := 0
	for line := range strings.Lines(text) {
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns > 0 && n > 0 {
			require.Equal(t, columns, n, line)
		}
		columns = n
	}
}

func TestBaselinesOf(t *testing.T) {
	sets := []Set{{Name: "a", Bags: make([]Bag, 1)}, {Name: "b", Bags: make([]Bag, 2)}}
	got, err := BaselinesOf(sets, map[string][]float64{"x": {1, 2, 3}})
	require.NoError(t, err)
	require.Equal(t, []Baseline{{"x", map[string][]float64{"a": {1}, "b": {2, 3}}}}, got)
	_, err = BaselinesOf(sets, map[string][]float64{"x": {1, 2}})
	require.ErrorContains(t, err, "x has 1 scores less than there are responses of b")
}
