package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a model that blocks on each batch until the test releases it.
type gate struct {
	batches chan []Sequence // received by the model
	replies chan error      // results of its calls: nil returns the margins
}

func newGate() *gate { return &gate{batches: make(chan []Sequence, 100), replies: make(chan error)} }

func (g *gate) Margins(batch []Sequence) ([]float32, error) {
	g.batches <- batch
	if err := <-g.replies; err != nil {
		return nil, err
	}
	return hashMargins(batch)
}

// asked returns the sizes of the batches since its last call.
func (g *gate) asked() []int {
	var sizes []int
	for _, batch := range g.batchesSoFar() {
		sizes = append(sizes, len(batch))
	}
	return sizes
}

// computed returns the number of sequences in the batches since the last call of asked.
func (g *gate) computed() (sum int) {
	for _, n := range g.asked() {
		sum += n
	}
	return sum
}

// call scores on a new goroutine.
func call(ctx context.Context, s *Scorer, req Request) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Score(ctx, req)
		done <- err
	}()
	return done
}

// unblocks the model until the call is done, and returns its error.
func release(g *gate, done <-chan error) error {
	for {
		select {
		case err := <-done:
			return err
		case g.replies <- nil:
		}
	}
}

// distinct returns a request with a response of n instances, which depend on name.
func distinct(name string, n int) Request {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Word %s%d. ", name, i)
	}
	return responses(b.String())
}

func TestBatchesAcrossRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{}, g)
		first := call(t.Context(), s, distinct("a", 1))
		synctest.Wait()
		if got := g.asked(); !slices.Equal(got, []int{1}) {
			t.Errorf("an idle scorer waited: batches %v", got)
		}
		others := []<-chan error{call(t.Context(), s, distinct("b", 2)), call(t.Context(), s, distinct("c", 3)), call(t.Context(), s, distinct("b", 2))}
		synctest.Wait()
		g.replies <- nil
		synctest.Wait()
		if got := g.asked(); !slices.Equal(got, []int{5}) {
			t.Errorf("batches %v, want one of the distinct instances of all that waited", got)
		}
		g.replies <- nil
		for _, done := range append(others, first) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A request that arrives while a huge one is computed completes before it.
func TestSmallRequestOvertakesHugeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{MaxBatchTokens: 40}, g)
		huge := call(t.Context(), s, distinct("h", 500))
		synctest.Wait()
		small := call(t.Context(), s, distinct("s", 2))
		synctest.Wait()
		g.replies <- nil // a batch of the huge one, formed before
		g.replies <- nil // both
		if err := <-small; err != nil {
			t.Error(err)
		}
		select {
		case err := <-huge:
			t.Errorf("the huge request is done: %v", err)
		default:
		}
		if err := release(g, huge); err != nil {
			t.Error(err)
		}
	})
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{MaxQueueTokens: 40, MaxBatchTokens: 8}, g)
		huge := call(t.Context(), s, distinct("h", 100)) // 400 tokens: ten times the queue, but it is idle
		synctest.Wait()
		var admitted []<-chan error
		for i := range 3 {
			admitted = append(admitted, call(t.Context(), s, distinct(fmt.Sprint(i), 3)))
			synctest.Wait()
		}
		_, err := s.Score(t.Context(), distinct("late", 3))
		var overloaded *OverloadedError
		if !errors.Is(err, ErrOverloaded) || !errors.As(err, &overloaded) || overloaded.RetryAfter < time.Second {
			t.Fatalf("a full queue: got %v", err)
		}
		<-time.After(2 * time.Second) // the bubble's clock advances while the model computes
		for range 2 {
			g.replies <- nil
		}
		synctest.Wait()
		if _, err := s.Score(t.Context(), distinct("late", 3)); !errors.As(err, &overloaded) || overloaded.RetryAfter < 10*time.Second {
			t.Errorf("with a model that has been slow: got %v", err)
		}
		for _, done := range append(admitted, huge) {
			if err := release(g, done); err != nil {
				t.Error(err)
			}
		}
		if err := release(g, call(t.Context(), s, distinct("late", 3))); err != nil {
			t.Errorf("after the queue emptied: %v", err)
		}
	})
}

// counted is a tokenizer that counts the texts that it has read.
type counted struct {
	words
	texts atomic.Int64
}

func (c *counted) IDsContext(ctx context.Context, text string) ([]int32, error) {
	c.texts.Add(1)
	return c.words.IDsContext(ctx, text)
}

// A request is refused as soon as the tokens that were read do not fit; the rest is not read.
func TestRefusalEndsTokenization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, tokenizer := newGate(), &counted{}
		s, err := NewScorer(ScorerConfig{Version: "v1", MaxQueueTokens: 100}, g, tokenizer, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var admitted []<-chan error
		add := func(req Request) {
			admitted = append(admitted, call(t.Context(), s, req))
			synctest.Wait()
		}
		for i, utterances := range []int{5, 6, 6, 6} { // of 4 tokens: 8 of 100 are left
			add(distinct(fmt.Sprint(i), utterances))
		}
		tokenizer.texts.Store(0)
		if _, err := s.Score(t.Context(), distinct("long", 100)); !errors.Is(err, ErrOverloaded) {
			t.Errorf("got %v", err)
		}
		if n := tokenizer.texts.Load(); n != 3 {
			t.Errorf("%d utterances were read, want 3, the last of which does not fit", n)
		}
		add(distinct("short", 2))
		for i, done := range admitted {
			if err := release(g, done); err != nil {
				t.Errorf("request %d, which fits: %v", i, err)
			}
		}
	})
}

// An utterance that is too long for the shortcut of its bytes is tokenized once.
func TestUtterancesAreTokenizedOnce(t *testing.T) {
	tokenizer := &counted{}
	s, err := NewScorer(ScorerConfig{Version: "v1", MaxLength: 12}, modelFunc(hashMargins), tokenizer, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	score(t, s, responses("A sentence that has ten words, which are many bytes. It is. Another sentence of more bytes than tokens fit."))
	if n := tokenizer.texts.Load(); n != 3 {
		t.Errorf("tokenized %d times, want once for each utterance", n)
	}
}

// growing is a tokenizer whose normalization makes characters other than ASCII longer.
type growing struct{ words }

func (g growing) IDsContext(ctx context.Context, text string) ([]int32, error) {
	return g.words.IDsContext(ctx, strings.ReplaceAll(text, "é", " one two three four "))
}

// A text with fewer bytes than fit, but more tokens, is divided at its clauses, and not in windows.
func TestLongerTokensThanBytes(t *testing.T) {
	s, err := NewScorer(ScorerConfig{Version: "v1", MaxLength: 12}, modelFunc(hashMargins), growing{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	instances := score(t, s, responses("é é, é"))[0].Instances
	if len(instances) != 2 || instances[1].Start != 5 {
		t.Errorf("instances %v, want the two clauses", instances)
	}
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{MaxQueueTokens: 40}, g)
		first := call(t.Context(), s, distinct("a", 2))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		canceled := call(ctx, s, distinct("b", 8))
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		expires := call(late, s, distinct("c", 2))
		synctest.Wait()
		cancel()
		if err := <-canceled; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := <-expires; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.mu.Lock()
		if s.queue.Tokens() != 8 || s.queue.Waiting() != 0 {
			t.Errorf("%d tokens and %d jobs wait, want only those in the batch", s.queue.Tokens(), s.queue.Waiting())
		}
		s.mu.Unlock()
		if err := release(g, first); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := g.asked(); !slices.Equal(got, []int{2}) {
			t.Errorf("batches %v: the model computed for callers that had canceled", got)
		}
		if _, err := s.Score(ctx, distinct("d", 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that had canceled before: %v", err)
		}
	})
}

// A cancellation while the batch is computed does not affect other callers.
func TestCancelInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{}, g)
		ctx, cancel := context.WithCancel(t.Context())
		canceled := call(ctx, s, distinct("a", 2))
		synctest.Wait()
		cancel()
		<-canceled
		other := call(t.Context(), s, distinct("b", 2))
		g.replies <- nil
		g.replies <- nil
		if err := <-other; err != nil {
			t.Error(err)
		}
	})
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newScorer(t, ScorerConfig{MaxBatchTokens: 8}, g)
		admitted := call(t.Context(), s, distinct("a", 6))
		synctest.Wait()
		closed := make(chan struct{})
		for range 2 {
			go func() {
				s.Close()
				closed <- struct{}{}
			}()
		}
		synctest.Wait()
		if _, err := s.Score(t.Context(), distinct("b", 1)); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		select {
		case <-closed:
			t.Error("closed before the admitted request was done")
		default:
		}
		for range 3 {
			g.replies <- nil
		}
		if err := <-admitted; err != nil {
			t.Errorf("an admitted request: %v", err)
		}
		<-closed
		<-closed
	})
}

// A sequence that the model cannot compute fails only its request, whatever the kind of
// failure.
func TestModelFailure(t *testing.T) {
	poison := words{}.IDs("poison.")[0]
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, fail := range map[string]func([]Sequence) ([]float32, error){
		"error":        func([]Sequence) ([]float32, error) { return nil, errors.New("out of memory") },
		"panic":        func([]Sequence) ([]float32, error) { panic("index out of range") },
		"too few":      func([]Sequence) ([]float32, error) { return nil, nil },
		"not a number": func(b []Sequence) ([]float32, error) { return marginsWith(b, poison, nan), nil },
		"infinite":     func(b []Sequence) ([]float32, error) { return marginsWith(b, poison, inf), nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				s := newScorer(t, ScorerConfig{CacheBytes: 1 << 16}, modelFunc(func(batch []Sequence) ([]float32, error) {
					for _, ids := range batch {
						if slices.Contains(ids.IDs, poison) {
							return fail(batch)
						}
					}
					return g.Margins(batch)
				}))
				first := call(t.Context(), s, distinct("a", 1))
				synctest.Wait()
				bad := call(t.Context(), s, responses("Good day. A poison. Bye."))
				good := call(t.Context(), s, distinct("b", 2))
				synctest.Wait()
				if err := release(g, bad); !errors.Is(err, ErrModel) {
					t.Errorf("the poisoned request: %v", err)
				}
				for _, done := range []<-chan error{first, good, call(t.Context(), s, distinct("c", 1))} {
					if err := release(g, done); err != nil {
						t.Errorf("another request: %v", err)
					}
				}
			})
		})
	}
}

func marginsWith(batch []Sequence, id int32, margin float32) []float32 {
	out := make([]float32, len(batch))
	for i, ids := range batch {
		if slices.Contains(ids.IDs, id) {
			out[i] = margin
		}
	}
	return out
}

func TestCache(t *testing.T) {
	for _, bytes := range []int64{0, 1 << 20} {
		var calls int
		s := newScorer(t, ScorerConfig{CacheBytes: bytes, MaxLength: 10}, modelFunc(func(batch []Sequence) ([]float32, error) {
			calls += len(batch)
			return hashMargins(batch)
		}))
		req := responses("One here. Two here.", "Two here. Three here.")
		req.Responses = append(req.Responses, Item{Instances: []string{strings.Repeat("a b c ", 20)}})
		first := score(t, s, req)
		once := calls
		second := score(t, s, req)
		want := map[bool]int{true: once, false: 2 * once}[bytes > 0]
		if calls != want {
			t.Errorf("cache of %d bytes: %d sequences for one request, %d for two", bytes, once, calls)
		}
		for i := range first {
			if first[i].Violation != second[i].Violation {
				t.Errorf("result %d: %v, then %v from the cache", i, first[i].Violation, second[i].Violation)
			}
		}
	}
}

func TestTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScorer(t, ScorerConfig{}, modelFunc(func(batch []Sequence) ([]float32, error) {
			<-time.After(30 * time.Millisecond) // of the bubble's clock
			return hashMargins(batch)
		}))
		first := call(t.Context(), s, distinct("a", 1))
		synctest.Wait()
		var wg sync.WaitGroup
		wg.Go(func() {
			<-time.After(10 * time.Millisecond)
			response, err := s.Score(t.Context(), distinct("b", 1))
			if want := (Timing{Queue: 20, Inference: 30, Total: 50}); err != nil || response.TimingMS != want {
				t.Errorf("got %+v, %v", response.TimingMS, err)
			}
		})
		wg.Wait()
		<-first
	})
}
