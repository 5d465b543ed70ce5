package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Clients that obey Retry-After are answered after the first wait, under several times
// the load that the model computes, and whatever other clients do.
func TestRetryAfterIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		load      float64 // times the capacity
		obeying   float64 // part of the clients that wait as long as they were told
		impatient float64 // part of the others that retry each 100 ms for 5 s
		large     bool    // sizes differ by a factor of 20
	}{
		"3 times":                        {load: 3, obeying: 1},
		"10 times":                       {load: 10, obeying: 1},
		"10 times, of many sizes":        {load: 10, obeying: 1, large: true},
		"10 times, most leave":           {load: 10, obeying: 1.0 / 16},
		"3 times, most are impatient":    {load: 3, obeying: 0.25, impatient: 0.75},
		"10 times, a third is impatient": {load: 10, obeying: 1.0 / 3, impatient: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const perSecond, duration = 1000, 20 * time.Second
				s := newScorer(t, ScorerConfig{MaxQueueTokens: 20_000, MaxQueueTime: 5 * time.Second, MaxBatchTokens: 100}, &timed{perSecond: perSecond})
				rng := rand.New(rand.NewPCG(1, 2))
				var clients sync.WaitGroup
				var mu sync.Mutex
				var answered [12]int // obeying clients, by their waits
				never, done, began := 0, 0, time.Now()
				until := func(d time.Duration) { <-time.After(d) }
				mean := 5.0 // instances of 4 tokens
				if c.large {
					mean = 0.9*2 + 0.1*40
				}
				for i := 0; time.Since(began) < duration; i++ {
					until(time.Duration(rng.ExpFloat64() / (c.load * perSecond / (4 * mean)) * float64(time.Second)))
					size, kind := 5, rng.Float64()
					if c.large {
						if size = 2; rng.Float64() < 0.1 {
							size = 40
						}
					}
					clients.Go(func() {
						req := distinct(fmt.Sprint(i), size)
						for waits := 0; ; waits++ {
							_, err := s.Score(context.Background(), req)
							var full *OverloadedError
							mu.Lock()
							switch refused := errors.As(err, &full); {
							case err == nil:
								if time.Since(began) < duration {
									done += 4 * size
								}
								if kind < c.obeying {
									answered[min(waits, 11)]++
								}
							case !refused:
								t.Error(err)
							case kind < c.obeying && waits > 10:
								never++
							}
							mu.Unlock()
							switch {
							case full == nil || waits > 10 && kind < c.obeying:
								return
							case kind < c.obeying:
								until(full.RetryAfter.Truncate(time.Second) + time.Second) // whole seconds
							case kind < c.obeying+c.impatient && waits < 50:
								until(100 * time.Millisecond)
							default:
								return
							}
						}
					})
				}
				clients.Wait()
				waited := never
				for _, n := range answered[1:] {
					waited += n
				}
				goodput := float64(done) / perSecond / duration.Seconds()
				t.Logf("answered after so many waits: %v, never %d; %.0f %% of the capacity used", answered, never, 100*goodput)
				if waited < 100 || float64(answered[1]) < 0.9*float64(waited) || goodput < 0.9 {
					t.Errorf("of %d that waited, %d were answered after the first wait; goodput %.2f", waited, answered[1], goodput)
				}
			})
		})
	}
}
