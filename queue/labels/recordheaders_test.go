package labels

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// Headers keep the labels of aspects. An earlier release, which reads HeaderLabel
// only, sees the verdict.
func TestHeadersKeepTheLabels(t *testing.T) {
	aspects := map[string]bag.Label{"toxicity": bag.Violation, "refusal": bag.Compliant, "x": bag.Compliant}
	for name, c := range map[string]struct {
		labels  feedback.Labels
		verdict string
		headers int
	}{
		"of the whole response": {feedback.Labels{Whole: bag.Violation}, "violation", 2},
		"of aspects":            {feedback.Labels{Aspects: aspects}, "violation", 5},
		"of both":               {feedback.Labels{Whole: bag.Compliant, Aspects: aspects}, "compliant", 4},
		"of a compliant aspect": {feedback.Labels{Aspects: map[string]bag.Label{"x": bag.Compliant}}, "compliant", 4},
	} {
		t.Run(name, func(t *testing.T) {
			mark := feedback.Mark{ID: feedback.HashOf("a"), Rater: feedback.HashOf("r"), Text: feedback.HashOf("t"), Labels: c.labels, Sequence: 3}
			header := nats.Header{}
			setMark(header, mark)
			require.Len(t, header, c.headers)
			require.Equal(t, c.verdict, header.Get(HeaderLabel))
			got, err := readMark(recordSubject(mark.ID, mark.Rater), header, 3)
			require.NoError(t, err)
			require.Equal(t, mark, got)
		})
	}
	// A record of an earlier release.
	got, err := readLabels(nats.Header{HeaderLabel: {"violation"}})
	require.NoError(t, err)
	require.Equal(t, feedback.Labels{Whole: bag.Violation}, got)
	for name, header := range map[string]nats.Header{
		"no label":                {HeaderComplied: {"x"}},
		"an invalid name":         {HeaderLabel: {"compliant"}, HeaderComplied: {"X"}},
		"an unknown scope":        {HeaderLabel: {"compliant"}, HeaderScope: {"y"}, HeaderComplied: {"x"}},
		"a scope without aspects": {HeaderLabel: {"compliant"}, HeaderScope: {"aspects"}},
	} {
		_, err := readLabels(header)
		require.Error(t, err, name)
	}
}
