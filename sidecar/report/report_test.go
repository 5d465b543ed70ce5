package report

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
)

const scored = `{"id":"a","model":{"version":"m-2"},"reward":0.9,"violation":0.1,"compliant":true,"witness":{"text":"Good."},"instances":[{},{}],"metadata":{"step":1,"source":"chat"}}

{"id":"b","model":{"version":"m-2"},"reward":0.2,"violation":0.95,"compliant":false,"witness":{"text":"You  <b>fool</b>."},"instances":[{}],"metadata":{"step":2,"source":"forum"}}
{"id":"c","model":"m-1","reward":0.3,"violation":0.9,"compliant":false,"witness":{"text":"you <b>FOOL</b>."},"instances":[{},{},{}],"truncated":true,"metadata":{"step":2,"source":"forum"}}
{"id":"d","reward":1,"violation":0,"compliant":true,"witness":null,"empty":true}
`

func read(t *testing.T, text string) []Response {
	t.Helper()
	responses, err := Read(strings.NewReader(text))
	require.NoError(t, err)
	return responses
}

func TestSummary(t *testing.T) {
	s := New("title", read(t, scored), 2)
	require.Equal(t, 4, s.All.Responses)
	require.InDelta(t, 0.5, s.All.Flagged, 1e-9)
	require.InDelta(t, 0.6, s.All.Reward, 1e-9)
	require.Equal(t, []int{1, 1}, []int{s.Empty, s.Truncated})
	require.Equal(t, []string{"m-2", "m-1"}, names(s.Models))
	require.Equal(t, []string{"1", "2 to 5"}, names(s.Lengths))
	require.Equal(t, []string{"1", "2"}, names(s.Steps))
	require.Len(t, s.Fields, 1)
	require.Equal(t, []string{"forum", "chat"}, names(s.Fields[0].Groups))
	require.Equal(t, []string{"b", "c"}, []string{s.Worst[0].ID, s.Worst[1].ID})
	require.Equal(t, []Phrase{{"You  <b>fool</b>.", 2, 0.925}}, s.Phrases)
	require.Nil(t, s.Calibration)
	require.Equal(t, 4, sum(s.Rewards.Bins))
	require.Equal(t, 1, s.Rewards.Bins[histogramBins-1], "a reward of 1 is in the last bin")
}

func names(groups []Group) (out []string) {
	for _, g := range groups {
		out = append(out, g.Name)
	}
	return out
}

func sum(values []int) (total int) {
	for _, v := range values {
		total += v
	}
	return total
}

func TestRewardsOnOtherScales(t *testing.T) {
	d := distribution([]float64{-4, 0, 6})
	require.Equal(t, []float64{-4, 6}, []float64{d.Low, d.High})
	require.Equal(t, 3, sum(d.Bins))
	require.Equal(t, 2, distribution([]float64{7, 7}).Bins[0], "equal values are in one bin")
}

func TestJoin(t *testing.T) {
	responses := read(t, scored)
	joined, err := Join(responses, strings.NewReader(`{"id":"b","label":"violation","response":"You fool.","category":"insult","metadata":{"step":7}}
{"id":"a","label":"compliant","category":"none"}
{"id":"unknown","label":"compliant"}
`))
	require.NoError(t, err)
	require.Equal(t, 2, joined)
	require.Equal(t, bag.Violation, responses[1].Label)
	require.Equal(t, map[string]string{"source": "forum", "category": "insult"}, responses[1].Fields)
	require.InDelta(t, 7, *responses[1].Step, 0)

	c := New("", responses, 0).Calibration
	require.Equal(t, 2, c.Labeled)
	require.InDelta(t, 1, c.AUROC, 0)
	require.InDelta(t, 1, c.Accuracy, 0)
	require.InDelta(t, 0.075, c.ECE, 1e-9)
	require.Equal(t, CalibrationBin{1, 0.95, 1}, c.Bins[9])
}

func TestCompare(t *testing.T) {
	before := read(t, `{"id":"a","reward":0.4,"compliant":false,"witness":{"text":"Good."}}
{"id":"b","reward":0.3,"compliant":false}
{"id":"gone","reward":0.3,"compliant":false}
`)
	c := Compare(before, read(t, scored), 5)
	require.Equal(t, []int{2, 1}, []int{c.Common, c.Flips})
	require.InDelta(t, 0.2, c.Difference, 1e-9)
	require.InDelta(t, 0.5, c.Largest, 1e-9)
	require.InDelta(t, 1, c.Correlation, 1e-9)
	require.Equal(t, "a", c.Changes[0].After.ID)
	require.Zero(t, Compare(before[2:], read(t, scored), 5).Common)
}

func TestReadErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":   {"\n", "no scored responses"},
		"no reward": {"{\"id\":\"a\",\"reward\":1}\n{\"response\":\"x\"}", "line 2: has no reward"},
		"no JSON":   {"reward: 1", "line 1: invalid character"},
		"label":     {`{"reward":1,"label":"bad"}`, `line 1: label is "bad"; give "violation" or "compliant"`},
	} {
		_, err := Read(strings.NewReader(c.text))
		require.ErrorContains(t, err, c.want, name)
	}
}

// Texts of responses are untrusted: they appear as text in both formats.
func TestFormats(t *testing.T) {
	responses := read(t, scored)
	_, err := Join(responses, strings.NewReader(`{"id":"a","label":"compliant"}`+"\n"+`{"id":"b","label":"violation"}`))
	require.NoError(t, err)
	s := New("A <title>", responses, 3)
	s.Comparison = Compare(read(t, `{"id":"a","reward":0.4,"compliant":false,"witness":{"text":"| *x*"}}`), responses, 3)
	var page, markdown strings.Builder
	require.NoError(t, s.WriteHTML(&page))
	require.NoError(t, s.WriteMarkdown(&markdown))
	for _, want := range []string{"A &lt;title&gt;", "You  &lt;b&gt;fool&lt;/b&gt;.", "By source", "1 verdicts differ", "<svg", "default-src &#39;none&#39;", "<title>step 2: reward 0.250, 100.0 % flagged, 2 responses</title>"} {
		require.Contains(t, strings.ReplaceAll(page.String(), "'none'", "&#39;none&#39;"), want)
	}
	require.NotContains(t, page.String(), "<b>")
	require.NotContains(t, page.String(), "http://")
	for _, want := range []string{"# A &lt;title&gt;", "You &lt;b&gt;fool&lt;/b&gt;.", "| violation: \\| \\*x\\* |", "## By number of utterances", "AUROC 1.000"} {
		require.Contains(t, markdown.String(), want)
	}
	require.NotContains(t, page.String()+markdown.String(), "NaN")
}

func TestTraining(t *testing.T) {
	stages, err := ReadTraining(strings.NewReader(`{"epoch":1,"epochs":2,"stage":"bfgpu","step":1,"steps":4,"loss":2}
{"epoch":1,"epochs":2,"stage":"bfgpu","step":2,"steps":4,"loss":1.5}
{"epoch":1,"epochs":2,"stage":"pseudo-labels","step":3,"steps":4,"loss":0.7}
{"epoch":2,"epochs":2,"stage":"bfgpu","step":4,"steps":4,"loss":1}
`))
	require.NoError(t, err)
	require.Equal(t, []Loss{{1, 2, 4, 1.5}, {2, 4, 4, 1}}, stages[0].Epochs())
	s := New("run", nil, 3)
	s.Training = stages
	var page, markdown strings.Builder
	require.NoError(t, s.WriteHTML(&page))
	require.NoError(t, s.WriteMarkdown(&markdown))
	require.Contains(t, page.String(), "epoch 1, step 2: 1.500")
	require.Contains(t, markdown.String(), "## Training: pseudo-labels")
	require.NotContains(t, page.String()+markdown.String(), "## Rewards")
	for text, want := range map[string]string{"": "no progress", `{"reward":1}`: "line 1: has no stage or steps"} {
		_, err := ReadTraining(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}

func TestFormatsOfNaN(t *testing.T) {
	require.Equal(t, []string{"–", "–"}, []string{number(math.NaN()), decimals(math.NaN())})
}
