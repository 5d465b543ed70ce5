package versions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"assay/rewardmodel"
)

// While versions are promoted, pinned, evicted and loaded again, every request that
// is not canceled is scored by one of them, and each version is closed once, after its
// last request.
func TestSetUnderConcurrentUse(t *testing.T) {
	for name, cfg := range map[string]Config{
		"by count": {MaxLoaded: 3},
		"by bytes": {MaxLoaded: 4, MaxBytes: 200},
		"tight":    {MaxBytes: 100},
	} {
		t.Run(name, func(t *testing.T) { testConcurrentUse(t, cfg) })
	}
}

func testConcurrentUse(t *testing.T, cfg Config) {
	const callers, requests, promotions = 24, 60, 150
	s := newFakeLoader(t)
	s.reg = prometheus.NewPedanticRegistry()
	s.model = func(string, []rewardmodel.Sequence) { runtime.Gosched() }
	v := newSet(t, cfg, s)
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(caller)))
			for range requests {
				model := []string{"", "assay", "", fmt.Sprint("v", random.IntN(5))}[random.IntN(4)]
				ctx, cancel := context.WithCancel(t.Context())
				cancels := random.IntN(4) == 0
				if cancels {
					yields := random.IntN(300)
					wg.Go(func() {
						for range yields {
							runtime.Gosched()
						}
						cancel()
					})
				}
				got, err := pin(ctx, v, model)
				outcome := "scored"
				switch {
				case err == nil && len(model) == 2 && got != model:
					t.Errorf("%s is scored by %s", model, got)
				case err == nil:
				case cancels && errors.Is(err, context.Canceled):
					outcome = "canceled"
				case model != "" && model != "assay" && (errors.Is(err, rewardmodel.ErrOverloaded) || errors.Is(err, ErrLoad) && cfg.MaxBytes == 100):
					outcome = "no room"
				default:
					t.Errorf("%q: %v", model, err)
				}
				cancel()
				mu.Lock()
				seen[outcome]++
				mu.Unlock()
			}
		})
	}
	for promoter := range 2 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(4, uint64(promoter)))
			for range promotions / 2 {
				ctx, cancel := context.WithCancel(t.Context())
				cancels := random.IntN(5) == 0
				if cancels {
					go cancel()
				}
				err := v.Promote(ctx, fmt.Sprint("v", random.IntN(5)))
				if err != nil && !(cancels && errors.Is(err, context.Canceled)) {
					t.Errorf("promotion: %v", err)
				}
				cancel()
				v.List()
				if _, err := s.reg.(*prometheus.Registry).Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.mu.Lock() // a load that its request does not wait for may continue
	defer s.mu.Unlock()
	t.Logf("outcomes: %v, at most %d in memory, %d loads", seen, s.maxLoaded, len(s.loads))
	if limit := cfg.withDefaults().MaxLoaded + 1; s.maxLoaded > limit {
		t.Errorf("%d in memory concurrently, more than %d", s.maxLoaded, limit)
	}
	if cfg.MaxBytes > 0 && s.maxLoaded > 2 {
		t.Errorf("%d in memory concurrently within %d bytes", s.maxLoaded, cfg.MaxBytes)
	}
}
