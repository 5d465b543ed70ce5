package rewardmodel

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// An exclusive request shares no batch, in any order of requests, and its caller is notified when the model computes
// it.
func TestExclusiveRequestSharesNoBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newGate()
		s := newScorer(t, ScorerConfig{MaxBatchTokens: 100}, model)
		var calls []bool
		exclusive := distinct("alone", 40) // several batches
		exclusive.Exclusive = func(computing bool) { calls = append(calls, computing) }
		exclusive.Priority = PriorityBulk
		first := call(t.Context(), s, distinct("first", 1)) // occupies the model
		synctest.Wait()
		require.Equal(t, []int{1}, model.asked())
		var done []<-chan error
		for _, req := range []Request{distinct("before", 3), exclusive, distinct("after", 3)} {
			done = append(done, call(t.Context(), s, req))
			synctest.Wait()
		}
		require.Empty(t, calls)
		require.NoError(t, release(model, first))
		for _, d := range done {
			require.NoError(t, release(model, d))
		}
		for _, batch := range model.batchesSoFar() {
			own := 0
			for _, ids := range batch {
				if isOf(ids.IDs, "alone", 40) {
					own++
				}
			}
			require.Contains(t, []int{0, len(batch)}, own, "nothing else is in a batch with it")
		}
		require.NotEmpty(t, calls)
		for i, computing := range calls {
			require.Equal(t, i%2 == 0, computing, "true before each batch, false after it")
		}
		require.Greater(t, len(calls), 2, "it has several batches")
	})
}

// batchesSoFar returns the batches since its last call.
func (g *gate) batchesSoFar() (batches [][]Sequence) {
	for len(g.batches) > 0 {
		batches = append(batches, <-g.batches)
	}
	return batches
}

// isOf reports whether a sequence is an instance of distinct(name, n).
func isOf(ids []int32, name string, n int) bool {
	for i := range n {
		if words := (words{}).IDs(fmt.Sprintf("Word %s%d.", name, i)); slices.Equal(ids[1:len(ids)-1], words) {
			return true
		}
	}
	return false
}
