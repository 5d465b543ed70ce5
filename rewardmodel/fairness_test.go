package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// timed is a model that computes perSecond tokens per second of the bubble's clock.
type timed struct {
	perSecond int
	batches   []int // tokens of each; read it when the model is idle
}

func (m *timed) Margins(batch []Sequence) ([]float32, error) {
	tokens := 0
	for _, ids := range batch {
		tokens += len(ids.IDs)
	}
	m.batches = append(m.batches, tokens)
	<-time.After(time.Duration(tokens) * time.Second / time.Duration(m.perSecond))
	return hashMargins(batch)
}

// lot returns a request of n responses of three sentences each.
func lot(name string, n int) Request {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("Of %s this is the %dth. It continues about %[2]d %[1]s for some more words. So %[1]s%[2]d ends.", name, i))
	}
	return responses(texts...)
}

// Small requests alongside one of 8,192 responses wait for the batch that is in
// flight, and at most for one more of the large one, whether they go first or not.
func TestSmallAlongsideHuge(t *testing.T) {
	for _, priority := range []Priority{PriorityInteractive, PriorityBulk} {
		t.Run(string(priority), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &timed{perSecond: 8192}
				s := newScorer(t, ScorerConfig{MaxBatchTokens: 1024}, m)
				start := time.Now()
				huge := call(t.Context(), s, lot("huge", 8192))
				synctest.Wait()
				latencies := make([]time.Duration, 200)
				var wg sync.WaitGroup
				for i := range latencies {
					wg.Go(func() {
						<-time.After(time.Duration(i) * 100 * time.Millisecond)
						start := time.Now()
						req := lot(fmt.Sprint("small", i), 1)
						req.Priority = priority
						if _, err := s.Score(t.Context(), req); err != nil {
							t.Error(err)
						}
						latencies[i] = time.Since(start)
					})
				}
				wg.Wait()
				select {
				case <-huge:
					t.Fatal("the huge request was done before the small ones")
				default:
				}
				if err := <-huge; err != nil {
					t.Error(err)
				}
				slices.Sort(latencies)
				batch := 1024 * time.Second / 8192
				p50, p99 := latencies[100], latencies[197]
				t.Logf("%v a batch: p50 %v, p99 %v, the huge one %v", batch, p50, p99, time.Since(start))
				if p99 > 3*batch {
					t.Errorf("p99 %v, want at most three batches of %v", p99, batch)
				}
				budget := 1024
				if priority == PriorityInteractive {
					budget /= 4 // as long as such requests keep coming
				}
				total, full := 0, 0
				for _, tokens := range m.batches {
					total += tokens
					full += min(tokens*10/(budget*9), 1)
				}
				if took := time.Since(start); took > time.Duration(total+total/10)*time.Second/8192 {
					t.Errorf("the model was idle: %d tokens took %v", total, took)
				}
				if full < len(m.batches)/2 {
					t.Errorf("%d of %d batches are full", full, len(m.batches))
				}
			})
		})
	}
}

// The sentences of 64 live sessions wait for the short batch that is computed, and are
// computed in the next one, while the model is never idle. It is as fast as the shipped
// one in bf16 on two cores.
func TestSentencesAlongsideBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sentences, perSecond = 3000, 120
		m := &timed{perSecond: 14_000}
		s := newScorer(t, ScorerConfig{MaxBatchTokens: 1024}, m)
		sentence := func(name string, n int) string {
			return fmt.Sprintf("%sends with %s%d. ", strings.Repeat("word ", 20), name, n)
		}
		start := time.Now()
		ended, stop := context.WithCancel(t.Context())
		var bulk, live sync.WaitGroup
		for client := range 2 {
			bulk.Go(func() {
				for n := 0; ended.Err() == nil; {
					var texts []string
					for range 16 {
						var text strings.Builder
						for range 12 {
							text.WriteString(sentence(fmt.Sprint("bulk", client), n))
							n++
						}
						texts = append(texts, text.String())
					}
					req := responses(texts...)
					req.Priority = PriorityBulk
					if _, err := s.Score(t.Context(), req); err != nil {
						t.Error(err)
					}
				}
			})
		}
		random := rand.New(rand.NewPCG(1, 2))
		delays := make([]time.Duration, sentences)
		at := time.Second
		for i := range delays {
			at += time.Duration(random.ExpFloat64() * float64(time.Second) / perSecond)
			due := at
			live.Go(func() {
				<-time.After(due)
				req := responses(sentence("live", i))
				req.Priority = PriorityInteractive
				if _, err := s.Score(t.Context(), req); err != nil {
					t.Error(err)
				}
				delays[i] = time.Since(start) - due
			})
		}
		live.Wait()
		stop()
		bulk.Wait()
		took, tokens := time.Since(start), 0
		for _, n := range m.batches {
			tokens += n
		}
		slices.Sort(delays)
		p50, p99 := delays[sentences/2], delays[sentences*99/100]
		t.Logf("p50 %v, p99 %v, batches of %d tokens", p50, p99, tokens/len(m.batches))
		if p99 > 45*time.Millisecond {
			t.Errorf("p99 %v: want the time of two short batches", p99)
		}
		if computed := time.Duration(tokens) * time.Second / time.Duration(m.perSecond); computed < took*99/100 {
			t.Errorf("the model was idle: %d tokens took %v", tokens, took)
		}
	})
}

// A request that cannot finish before its timeout, or within the queue time, is
// rejected before it costs anything.
func TestAdmissionByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScorer(t, ScorerConfig{MaxQueueTime: 8 * time.Second, MaxBatchTokens: 100}, &timed{perSecond: 100})
		if err := <-call(t.Context(), s, distinct("measured", 25)); err != nil { // 100 tokens, one second
			t.Fatal(err)
		}
		var admitted []<-chan error
		for i := range 4 { // 200 tokens each
			admitted = append(admitted, call(t.Context(), s, distinct(fmt.Sprint("a", i), 50)))
		}
		synctest.Wait()
		refused := func(ctx context.Context, req Request) time.Duration {
			t.Helper()
			_, err := s.Score(ctx, req)
			var overloaded *OverloadedError
			if !errors.As(err, &overloaded) {
				t.Fatalf("got %v", err)
			}
			return overloaded.RetryAfter
		}
		if wait := refused(t.Context(), distinct("late", 50)); wait < 7*time.Second || wait > 9*time.Second {
			t.Errorf("800 tokens wait: retry after %v, want the eight seconds until nothing but 200 waits", wait)
		}
		<-time.After(6500 * time.Millisecond) // in the middle of a batch: two seconds of work wait
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if wait := refused(ctx, distinct("hasty", 30)); wait < 3*time.Second || wait > 5*time.Second {
			t.Errorf("retry after %v, want the time until that of the late request, and what it takes", wait)
		}
		<-time.After(time.Second) // less than two seconds
		longer, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := <-call(longer, s, distinct("quick", 1)); err != nil {
			t.Errorf("a small request with three seconds to wait: %v", err)
		}
		for _, done := range admitted {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A first call that is much slower than later ones does not limit the queue.
func TestAdmissionAfterASlowFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScorer(t, ScorerConfig{MaxQueueTime: 8 * time.Second, MaxBatchTokens: 100}, &timed{perSecond: 1})
		first := call(t.Context(), s, distinct("first", 2)) // 8 tokens, eight seconds
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		var admitted []<-chan error
		for i := range 8 {
			admitted = append(admitted, call(t.Context(), s, distinct(fmt.Sprint("a", i), 25))) // 100 tokens each
		}
		for _, done := range admitted {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
