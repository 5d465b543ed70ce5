// Package labelstest helps the tests of the log of labels.
package labelstest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/stretchr/testify/require"
)

// Labeled returns a labeled response.
func Labeled(id string, label bag.Label) bag.Bag {
	return bag.Bag{ID: id, Label: label, Response: "The text of " + id + "."}
}

// Some returns n bags of both labels with the ids r<first> and up.
func Some(first, n int) []bag.Bag {
	bags := make([]bag.Bag, n)
	for i := range bags {
		label := bag.Compliant
		if (first+i)%3 == 0 {
			label = bag.Violation
		}
		bags[i] = Labeled(fmt.Sprint("r", first+i), label)
	}
	return bags
}

// BatchOf returns a batch of bags.
func BatchOf(bags ...bag.Bag) feedback.Batch {
	var b feedback.Batch
	for i, it := range bags {
		b.Items = append(b.Items, feedback.Entry{Index: i, Item: feedback.Item{Bag: it}})
	}
	return b
}

// Append appends bags and returns the receipt.
func Append(t testing.TB, l *labels.Log, bags ...bag.Bag) feedback.Receipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	receipt, err := l.Append(ctx, BatchOf(bags...), "ann")
	require.NoError(t, err)
	require.Equal(t, len(bags), receipt.Accepted+receipt.Duplicates+len(receipt.Rejected))
	return receipt
}

// Accepts appends bags and requires the counts of the receipt.
func Accepts(t testing.TB, l *labels.Log, accepted, duplicates int, bags ...bag.Bag) {
	t.Helper()
	receipt := Append(t, l, bags...)
	require.Empty(t, receipt.Rejected)
	require.Equal(t, accepted, receipt.Accepted)
	require.Equal(t, duplicates, receipt.Duplicates)
}

// Rejects appends a bag and requires its rejection.
func Rejects(t testing.TB, l *labels.Log, code feedback.Code, message string, b bag.Bag) {
	t.Helper()
	receipt := Append(t, l, b)
	require.Len(t, receipt.Rejected, 1)
	require.Equal(t, code, receipt.Rejected[0].Code)
	require.Equal(t, b.ID, receipt.Rejected[0].ID)
	require.Contains(t, receipt.Rejected[0].Message, message)
}

// CaughtUp waits until the index has read the stream.
func CaughtUp(t testing.TB, l *labels.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	require.NoError(t, l.CaughtUp(ctx))
}

// Records returns all records by "<id>/<rater>".
func Records(t testing.TB, l *labels.Log) map[string]feedback.Stored {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	require.NoError(t, l.CaughtUp(ctx))
	out := map[string]feedback.Stored{}
	last := uint64(0)
	for r, err := range l.Records(ctx, l.Index().Last()) {
		require.NoError(t, err)
		require.Greater(t, r.Sequence, last, "in order")
		last = r.Sequence
		key := r.Record.Bag.ID + "/" + r.Record.Bag.Rater
		require.NotContains(t, out, key)
		out[key] = r
	}
	return out
}

// Contents returns all bags of an index by the hash of their ids.
func Contents(x *feedback.Index) map[feedback.Hash]feedback.Bag {
	out := map[feedback.Hash]feedback.Bag{}
	for b := range x.Bags(feedback.Split{Share: 0.2}) {
		out[b.ID] = b
	}
	return out
}

// Scored returns a scored response.
func Scored(id, text string) labels.ScoredResponse {
	return labels.ScoredResponse{Item: rewardmodel.Item{ID: id, Response: &text, Prompt: "Why?"}, Model: "v1",
		Time: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Violation: 0.7, Threshold: 0.6, Reward: 0.4, Instances: []float64{0.1, 0.7}}
}
