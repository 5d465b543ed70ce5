package judge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
)

func TestRead(t *testing.T) {
	for reply, want := range map[string]Decision{
		"negative":     Violation,
		"positive":     Compliant,
		" Negative.\n": Violation,
		"**POSITIVE**": Compliant,
		"'positive'":   Compliant,
		"“negative”":   Violation,
		"`negative`!":  Violation,
		"<think>Not positive...</think>\n\nnegative": Violation,
		"It is negative</think> positive":            Compliant,
		"<think>a</think><think>b</think>positive":   Compliant,
		"<think>positive":                            Unreadable,
		"<think>negative</think>":                    Unreadable,
		"":                                           Unreadable,
		"   ":                                        Unreadable,
		"positive or negative":                       Unreadable,
		"positive\nnegative":                         Unreadable,
		"not negative":                               Unreadable,
		"non-negative":                               Unreadable,
		"The sentiment is positive.":                 Unreadable,
		"neutral":                                    Unreadable,
		"positive1":                                  Unreadable,
		"1. negative":                                Unreadable,
		"négative":                                   Unreadable,
		"\xffnegative\xff":                           Violation,
	} {
		require.Equal(t, Verdict{Decision: want, Reply: reply}, Read(reply), "%q", reply)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("negative")
	f.Add("<think>x</think> Positive.")
	f.Fuzz(func(t *testing.T, reply string) {
		v := Read(reply)
		if v.Reply != reply {
			t.Fatal("the reply was changed")
		}
		for word, decision := range map[string]Decision{"negative": Violation, "positive": Compliant} {
			if v.Decision == decision && !strings.Contains(strings.ToLower(reply), word) {
				t.Fatalf("%q is %s", reply, decision)
			}
		}
	})
}

func TestText(t *testing.T) {
	require.Equal(t, "A. B.", Text(bag.Bag{Response: "A. B."}))
	require.Equal(t, "A. B.", Text(bag.Bag{Instances: []string{"A.", "B."}}))
	require.Equal(t, "A.\nB.", Text(bag.Bag{Messages: []bag.Message{{Role: "user", Content: "?"}, {Role: "assistant", Content: "A."}, {Role: "assistant", Content: "B."}}}))
}

func TestUnreadableRepliesCountAsWrong(t *testing.T) {
	verdicts := []Verdict{{Decision: Violation}, {Decision: Compliant}, {Decision: Unreadable}, {Decision: Unreadable}, {Decision: Compliant}}
	labels := []bag.Label{bag.Violation, bag.Compliant, bag.Violation, bag.Compliant, bag.Violation}
	scores, unreadable, err := Predictions(verdicts, labels)
	require.NoError(t, err)
	require.Equal(t, 2, unreadable)
	report, err := eval.Evaluate(scores, 0.5, eval.Bootstrap{})
	require.NoError(t, err)
	require.InDelta(t, (1.0/3+1.0/2)/2, report.Metrics["avg_acc"], 1e-12)

	_, _, err = Predictions(verdicts[:1], labels)
	require.ErrorIs(t, err, eval.ErrInput)
	_, _, err = Predictions([]Verdict{{}}, labels[:1])
	require.ErrorIs(t, err, eval.ErrInput)
}
