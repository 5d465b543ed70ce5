package commands

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
)

func TestScoreBagsLocatesInstances(t *testing.T) {
	asked := scorerFunc(func([]rewardmodel.Item) error { return nil })
	words := func(s string) (int, error) { return len(strings.Fields(s)), nil }
	scores, err := scoreBags(t.Context(), asked, []bag.Bag{
		{ID: "a", Label: bag.Violation, Response: "Grüße!  You fool.", Spans: [][2]int{{12, 16}}},
		{ID: "b", Label: bag.Violation, Response: "You fool."},
		{ID: "c", Label: bag.Compliant, Instances: []string{""}, Spans: [][2]int{}},
	}, 100, words)
	require.NoError(t, err)
	require.Equal(t, [][2]int{{0, 6}, {8, 17}}, scores[0].Spans)
	require.Equal(t, [][2]int{{12, 16}}, scores[0].GoldSpans)
	require.Nil(t, scores[1].Spans)
	require.Nil(t, scores[2].Spans)
}
