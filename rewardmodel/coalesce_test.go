package rewardmodel

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// The same text in several concurrent requests is computed once, whether it is queued
// or in a batch when the next request arrives, and without a cache.
func TestIdenticalWorkIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{MaxLength: 10}, g)
		long := Request{Responses: []Item{{Instances: []string{strings.Repeat("a b c ", 5)}}}} // three windows
		calls := []<-chan error{call(t.Context(), s, distinct("a", 3))}
		synctest.Wait()
		for range 3 {
			calls = append(calls, call(t.Context(), s, distinct("a", 4)), call(t.Context(), s, long))
		}
		synctest.Wait()
		for _, done := range calls {
			if err := release(g, done); err != nil {
				t.Error(err)
			}
		}
		if got := g.computed(); got != 3+1+3 {
			t.Errorf("%d sequences were computed, want three instances, one new one and three windows", got)
		}
	})
}

// When the first caller cancels, the others still get their result, from the queue or
// from the batch in flight.
func TestCoalescedWorkOutlivesItsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{MaxBatchTokens: 16}, g)
		ctx, cancel := context.WithCancel(t.Context())
		inFlight := call(ctx, s, distinct("a", 3))
		synctest.Wait()
		waits := call(ctx, s, distinct("b", 4))
		synctest.Wait()
		stay := []<-chan error{call(t.Context(), s, distinct("a", 3)), call(t.Context(), s, distinct("b", 3)), call(t.Context(), s, distinct("b", 2))}
		synctest.Wait()
		cancel()
		for _, done := range []<-chan error{inFlight, waits} {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		for range 2 {
			g.replies <- nil
		}
		for _, done := range stay {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := g.asked(); !slices.Equal(got, []int{3, 3}) {
			t.Errorf("batches %v: want each text with a waiting caller once", got)
		}
	})
}

// An interactive request that shares its text with a huge one does not wait
// for that one's slots.
func TestCoalescedWorkKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{MaxBatchTokens: 40}, g)
		huge := distinct("h", 500)
		huge.Priority = PriorityBulk
		first := call(t.Context(), s, huge)
		synctest.Wait()
		small := call(t.Context(), s, responses("Word h490.")) // the last sequence of the other
		synctest.Wait()
		g.replies <- nil
		g.replies <- nil
		if err := <-small; err != nil {
			t.Error(err)
		}
		if err := release(g, first); err != nil {
			t.Error(err)
		}
		if got := g.computed(); got != 500 {
			t.Errorf("%d sequences were computed for 500", got)
		}
	})
}

// A model that fails on one request's text does not fail those that share the
// rest of it.
func TestCoalescedWorkSurvivesAFailure(t *testing.T) {
	poison := words{}.IDs("poison.")[0]
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{}, modelFunc(func(batch []Sequence) ([]float32, error) {
			for _, ids := range batch {
				if slices.Contains(ids.IDs, poison) {
					return nil, errors.New("out of memory")
				}
			}
			return g.Margins(batch)
		}))
		first := call(t.Context(), s, distinct("a", 1))
		synctest.Wait()
		bad := call(t.Context(), s, responses("Good day. A poison. Bye."))
		synctest.Wait()
		good := call(t.Context(), s, responses("Good day. Bye. Well."))
		synctest.Wait()
		worse := call(t.Context(), s, responses("Good day. A poison. Well."))
		synctest.Wait()
		for _, done := range []<-chan error{bad, worse} {
			if err := release(g, done); !errors.Is(err, ErrModel) {
				t.Errorf("a poisoned request: %v", err)
			}
		}
		for _, done := range []<-chan error{first, good} {
			if err := release(g, done); err != nil {
				t.Errorf("another request: %v", err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.queue.Empty() {
			t.Errorf("left behind: %d jobs, %d tokens", s.queue.Waiting(), s.queue.Tokens())
		}
	})
}
