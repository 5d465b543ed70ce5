package labels_test

import (
	"fmt"
	"testing"
	"time"

	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/stretchr/testify/require"
)

func TestScoredResponses(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Streams.KeepScored = time.Hour
	q := queuetest.Open(t, cfg)
	f := q.Labels()
	require.True(t, f.KeepsScored())
	none, err := f.RecentScored(t.Context(), 5)
	require.NoError(t, err)
	require.Empty(t, none)
	messages := labelstest.Scored("m", "")
	messages.Item.Response = nil
	messages.Item.Messages = []rewardmodel.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello.\u2028"}}
	instances := labelstest.Scored("i", "")
	instances.Item.Response = nil
	instances.Item.Instances = []string{"One.", "Two."}
	for _, r := range []labels.ScoredResponse{messages, instances, labelstest.Scored("", "no id"), labelstest.Scored("blank", " ")} {
		require.NoError(t, f.KeepScored(t.Context(), []labels.ScoredResponse{r}))
	}
	for i := range 30 { // scored again and again
		require.NoError(t, f.KeepScored(t.Context(), []labels.ScoredResponse{labelstest.Scored(fmt.Sprint("k", i%3), fmt.Sprint("text ", i))}))
	}
	got, found, err := f.Scored(t.Context(), "m")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, messages, got)
	recent, err := f.RecentScored(t.Context(), 5)
	require.NoError(t, err)
	require.Len(t, recent, 5)
	require.Equal(t, labelstest.Scored("k2", "text 29"), recent[0])
	require.Equal(t, labelstest.Scored("k1", "text 28"), recent[1])
	require.Equal(t, "blank", recent[3].Item.ID)
	all, err := f.RecentScored(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, all, 6)
	require.Equal(t, "m", all[5].Item.ID)

	// They take a limited memory.
	ids, left, err := f.ScoredWithin(t.Context(), 5, 10_000)
	require.NoError(t, err)
	require.Equal(t, []string{"i", "blank", "k0", "k1", "k2"}, ids)
	require.Positive(t, left)
	ids, rest, err := f.ScoredWithin(t.Context(), 5, 10_000-left-1)
	require.NoError(t, err)
	require.Equal(t, []string{"blank", "k0", "k1", "k2"}, ids)
	require.Zero(t, rest, "older ones do not fit")

	// Feedback by their ids.
	by := func(id, response string, b bag.Bag) feedback.Receipt {
		b.ID, b.Label = id, bag.Violation
		batch := feedback.Batch{Items: []feedback.Entry{{Item: feedback.Item{Bag: b, ResponseID: response}}}}
		receipt, err := f.Append(t.Context(), batch, "")
		require.NoError(t, err)
		return receipt
	}
	require.Equal(t, 1, by("m", "m", bag.Bag{}).Accepted)
	require.Equal(t, 1, by("i", "i", bag.Bag{}).Accepted)
	require.Equal(t, 1, by("other", "k2", bag.Bag{Rater: "ann"}).Accepted)
	require.Equal(t, 1, by("same", "k0", bag.Bag{Response: "text 27"}).Accepted)
	require.Equal(t, 1, by("different", "k0", bag.Bag{Response: "text 0"}).Accepted)
	require.Equal(t, 1, by("own", "unknown", bag.Bag{Response: "A text."}).Accepted)
	require.Equal(t, feedback.CodeUnknown, by("u", "unknown", bag.Bag{}).Rejected[0].Code)
	require.Equal(t, feedback.CodeNoText, by("blank", "blank", bag.Bag{}).Rejected[0].Code)
	all2 := labelstest.Records(t, f)
	require.Equal(t, "Why?", all2["same/"].Record.Bag.Prompt, "of the scored response")
	require.Empty(t, all2["different/"].Record.Bag.Prompt)
	require.Equal(t, []bag.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello.\u2028"}}, all2["m/"].Record.Bag.Messages)
	require.Equal(t, []string{"One.", "Two."}, all2["i/"].Record.Bag.Instances)
	record := all2["other/ann"].Record
	require.Equal(t, "text 29", record.Bag.Response)
	require.Equal(t, "Why?", record.Bag.Prompt)
	require.Equal(t, "v1", record.Model)
	require.Equal(t, 0.7, *record.Violation)
	require.Nil(t, all2["own/"].Record.Violation)

	_, err = f.Erase(t.Context(), "k2")
	require.NoError(t, err)
	require.Equal(t, feedback.CodeErased, by("again", "k2", bag.Bag{}).Rejected[0].Code)
}
