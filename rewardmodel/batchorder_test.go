package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// bulkOf returns a bulk job.
func bulkOf(lengths ...int) *job {
	j := jobOf(lengths...)
	j.priority = bulk
	return j
}

func TestInteractiveGoesFirst(t *testing.T) {
	s := scheduler{budget: 400, limit: 1 << 20}
	s.admit(bulkOf(slices.Repeat([]int{10}, 1000)...))
	s.nextBatch()
	for range 2 {
		s.admit(jobOf(12, 10, 10))
	}
	batch, _ := s.nextBatch()
	urgent := 0
	for _, q := range batch {
		if q.first.job.priority == interactive {
			urgent++
		}
	}
	if urgent != 6 {
		t.Errorf("%d of 6 interactive sequences are in the next batch", urgent)
	}
	if tokens := tokensOf(batch); tokens > 100 || tokens < 91 {
		t.Errorf("%d tokens: want what bulk work of 10 each can fill of 100", tokens)
	}
	for range shortBatches {
		if batch, reason := s.nextBatch(); len(batch) != 10 || reason != reasonBudget {
			t.Errorf("bulk work for which an interactive job may wait: %d sequences, %s", len(batch), reason)
		}
	}
	if batch, reason := s.nextBatch(); len(batch) != 40 || reason != reasonBudget {
		t.Errorf("then only bulk work: %d sequences, %s", len(batch), reason)
	}
}

// A batch with interactive jobs takes as many tokens as are computed quickly, in sizes
// that the model need not pad.
func TestShortBudget(t *testing.T) {
	for quick, want := range map[int]int{0: 256, 200: 256, 383: 256, 384: 384, 600: 512, 1023: 896, 1024: 1024, math.MaxInt32: 1024} {
		s := scheduler{budget: 1024, limit: 1 << 20, quick: quick}
		if got := s.shortBudget(); got != want {
			t.Errorf("%d tokens are computed quickly: a budget of %d, want %d", quick, got, want)
		}
		s.admit(bulkOf(slices.Repeat([]int{8}, 1000)...))
		s.admit(jobOf(8))
		if batch, _ := s.nextBatch(); tokensOf(batch) != want {
			t.Errorf("%d tokens are computed quickly: a batch of %d, want %d", quick, tokensOf(batch), want)
		}
	}
	for _, budget := range []int{1, 3, 10} {
		s := scheduler{budget: budget}
		if got := s.shortBudget(); got < 1 || got > budget {
			t.Errorf("a short batch of %d tokens of %d", got, budget)
		}
	}
}

// Bulk work continues under any amount of interactive work, and the reverse.
func TestBulkIsNeverStarved(t *testing.T) {
	for _, length := range []int{5, 10, 40, 150} {
		s := scheduler{budget: 400, limit: 1 << 20}
		late := bulkOf(slices.Repeat([]int{length}, 100)...)
		s.admit(late)
		batches := 0
		for ; late.remaining > 0; batches++ {
			for range 21 {
				s.admit(jobOf(10, 10))
			}
			batch, _ := s.nextBatch()
			computed(&s, batch, 0)
			if batches > 100*length {
				t.Fatalf("%d of 100 sequences of %d tokens wait after %d batches", late.remaining, length, batches)
			}
		}
		perBatch := max(1, 100/length) // in a quarter of the budget, at every fourth slot
		if limit := 4 * (100 + perBatch - 1) / perBatch; batches > limit {
			t.Errorf("100 sequences of %d tokens took %d batches, want at most %d", length, batches, limit)
		}
	}
}

// Neither priority can block the other.
func TestPrioritiesAreAdmittedSeparately(t *testing.T) {
	for _, first := range []priority{interactive, bulk} {
		s := scheduler{budget: 100, limit: 100}
		of := func(p priority, lengths ...int) *job {
			j := jobOf(lengths...)
			j.priority = p
			return j
		}
		for range 4 {
			if !s.admit(of(first, 25)) {
				t.Fatal("not admitted")
			}
		}
		if other := 1 - first; !s.full(first) || s.admit(of(first, 1)) || s.full(other) || !s.admit(of(other, 25)) || !s.full(other) || s.admit(of(other, 1)) {
			t.Errorf("with the queue full of priority %d: held %v", first, s.charged)
		}
	}
}

// Where jobs of one priority were refused, the other has its usual limit.
func TestPrioritiesStandSeparately(t *testing.T) {
	s := scheduler{budget: 100, limit: 1000}
	of := func(p priority, tokens int) *job {
		j := jobOf(tokens)
		j.priority = p
		return j
	}
	for range 4 {
		s.admit(of(bulk, 200))
	}
	s.standing[bulk] = 40
	if s.admit(of(bulk, 1)) || s.excess(bulk, 5) != 765 {
		t.Errorf("bulk jobs of %d tokens wait, %d have to go", s.charged[bulk], s.excess(bulk, 5))
	}
	for range 4 {
		if !s.admit(of(interactive, 50)) {
			t.Fatal("an interactive job was refused")
		}
	}
	s.standing[interactive] = 40
	if s.admit(of(interactive, 1)) || s.excess(interactive, 5) != 220 {
		t.Errorf("interactive jobs of %d tokens wait, %d have to go", s.charged[interactive], s.excess(interactive, 5))
	}
	if bulk.share()+interactive.share() != 1 {
		t.Error("the priorities share more or less than everything")
	}
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

func TestTextCost(t *testing.T) {
	var c textCost
	if got := c.of(1000); got != 1 {
		t.Errorf("%d tokens before anything was read, want 1", got)
	}
	for range 50 {
		c.observe(400, 100)
		c.observe(0, 30) // a sentence of a live session
	}
	if got := c.of(1000); got < 249 || got > 250 {
		t.Errorf("1,000 bytes are %d tokens, want those of 4 bytes each", got)
	}
}

func TestThroughput(t *testing.T) {
	var tp throughput
	if tp.timeFor(100) != 0 || tp.capacity(time.Second) < 1<<30 {
		t.Error("a throughput without a measurement limits something")
	}
	tp.observe(100, 0)
	if tp.timeFor(100) != 0 {
		t.Errorf("nothing took %v", tp.timeFor(100))
	}
	tp = throughput{}
	for range 100 {
		tp.observe(10, 10*time.Millisecond) // one by one, while idle
	}
	for range 60 {
		tp.observe(10_000, time.Second) // full batches
	}
	if got := tp.timeFor(20_000); got < 1990*time.Millisecond || got > 2100*time.Millisecond {
		t.Errorf("20,000 tokens take %v", got)
	}
	if got := tp.capacity(time.Minute); got < 590_000 || got > 600_000 {
		t.Errorf("%d tokens in a minute", got)
	}
	cold := throughput{warmUp: 100}
	cold.observe(40, time.Minute) // the first call
	if cold.timeFor(100) != 0 || cold.capacity(time.Second) < 1<<30 {
		t.Error("the first calls limit something")
	}
	cold.observe(60, time.Second)
	if cold.timeFor(100) == 0 || cold.capacity(time.Second) > 100 {
		t.Error("nothing is limited after the first calls")
	}
	tp.observe(1, 10_000*time.Hour)
	if got := tp.timeFor(1 << 40); got <= 0 {
		t.Errorf("an overflow: %v", got)
	}
}
