package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// mixed returns a request of random shape and size, with some repeated text.
func mixed(random *rand.Rand) Request {
	var req Request
	for i := range 1 + random.IntN(4) {
		item := Item{ID: fmt.Sprint(i)}
		switch random.IntN(5) {
		case 0:
			item.Instances = []string{sentences(random, 1), sentences(random, 20), " "}
		case 1:
			item.Messages = []Message{{"user", sentences(random, 1)}, {RoleAssistant, sentences(random, 3)}, {RoleAssistant, sentences(random, 2)}}
		case 2:
			item.Response = new("<think>" + sentences(random, 2) + "</think>" + sentences(random, 2))
		default:
			item.Response = new(sentences(random, random.IntN(12)))
		}
		req.Responses = append(req.Responses, item)
	}
	req.Options.Aggregate = Aggregates()[random.IntN(4)]
	req.Priority = []Priority{"", PriorityInteractive, PriorityBulk}[random.IntN(3)]
	return req
}

func sentences(random *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		for range 1 + random.IntN(15) {
			fmt.Fprintf(&b, "word%d ", random.IntN(30))
		}
		b.WriteString("end. ")
	}
	return b.String()
}

// Concurrent callers that cancel at random, find the queue full or get errors of the
// model finally get the same results as a single caller, and nothing is left behind.
func TestChaos(t *testing.T) {
	for _, cacheBytes := range []int64{0, 1 << 14} {
		t.Run(fmt.Sprintf("cache of %d bytes", cacheBytes), func(t *testing.T) { chaos(t, cacheBytes) })
	}
}

func chaos(t *testing.T, cacheBytes int64) {
	const callers, requests = 64, 8
	alone := newScorer(t, ScorerConfig{MaxLength: 24}, modelFunc(hashMargins))
	batches := rand.New(rand.NewPCG(7, 7)) // used only by the model's goroutine
	s := newScorer(t, ScorerConfig{MaxLength: 24, MaxBatchTokens: 200, MaxQueueTokens: 16000, MaxQueueTime: time.Second, CacheBytes: cacheBytes},
		modelFunc(func(batch []Sequence) ([]float32, error) {
			switch batches.IntN(40) {
			case 0:
				return nil, errors.New("a transient failure")
			case 1:
				panic("a transient panic")
			}
			runtime.Gosched()
			return hashMargins(batch)
		}))
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for range requests {
				req := mixed(random)
				if random.IntN(2) == 0 { // the same as other callers
					req = mixed(rand.New(rand.NewPCG(2, random.Uint64N(8))))
				}
				want, err := alone.Score(t.Context(), req)
				if err != nil {
					t.Errorf("alone: %v", err)
					return
				}
				got, tries := persist(t, s, req, random)
				if !reflect.DeepEqual(got.Results, want.Results) {
					t.Errorf("got  %+v\nwant %+v", got.Results, want.Results)
				}
				mu.Lock()
				for _, try := range tries {
					seen[try]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("outcomes: %v", seen)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.queue.Empty() {
		t.Errorf("left behind: %d tokens, %d jobs", s.queue.Tokens(), s.queue.Waiting())
	}
}

// persist retries until the request is scored, and sometimes cancels.
func persist(t *testing.T, s *Scorer, req Request, random *rand.Rand) (ScoreResponse, []string) {
	var tries []string
	for {
		ctx, cancel := context.WithCancel(t.Context())
		if random.IntN(8) == 0 { // a deadline that the queue may not meet
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(random.IntN(5000))*time.Microsecond)
		}
		if random.IntN(3) == 0 {
			go func(yields int) {
				for range yields {
					runtime.Gosched()
				}
				cancel()
			}(random.IntN(200))
		}
		response, err := s.Score(ctx, req)
		cancel()
		switch {
		case err == nil:
			return response, append(tries, "scored")
		case errors.Is(err, ErrOverloaded):
			tries = append(tries, "overloaded")
			runtime.Gosched()
		case errors.Is(err, context.DeadlineExceeded):
			tries = append(tries, "expired")
		case errors.Is(err, context.Canceled):
			tries = append(tries, "canceled")
		case errors.Is(err, ErrModel):
			tries = append(tries, "model failed")
		default:
			t.Errorf("unexpected: %v", err)
			return response, tries
		}
	}
}
