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

// Refused requests get times one after the other, and keep them.
func TestWaitlist(t *testing.T) {
	start := time.Unix(1000, 0)
	type step struct {
		at   time.Duration
		id   uint64
		want time.Duration // of a promise; 0: a claim
		held int           // afterward
		ok   bool          // of a claim
	}
	const room, takes, tokens = 1500 * time.Millisecond, 500 * time.Millisecond, 10
	for name, steps := range map[string][]step{
		"one after the other": {
			{id: 1, want: room}, {id: 2, want: room + takes}, {id: 3, want: room + 2*takes},
		},
		"too early": {
			{id: 1, want: room}, {at: time.Second, id: 1}, {at: time.Second, id: 1, want: room},
			{at: time.Second, id: 2, want: room}, {at: room, id: 1, want: room, held: tokens},
		},
		"on time": {
			{id: 1, want: room}, {id: 2, want: room + takes},
			{at: room, id: 3, held: tokens}, {at: room, id: 1, ok: true}, {at: room, id: 1, ok: true},
			{at: room + takes, id: 3, held: tokens}, {at: room + takes, id: 2, ok: true},
		},
		"late": {
			{id: 1, want: room}, {at: room + slotHeld, id: 3, held: tokens}, {at: room + slotHeld + 1, id: 3},
			{at: room + slotKept, id: 1, ok: true}, {at: room + slotKept + 1, id: 1},
		},
		"never": {
			{id: 1, want: room}, {at: time.Minute, id: 1, want: room}, {at: time.Minute, id: 2, want: room + takes/2}, // half of those that were promised something came back, to be safe
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w waitlist
			for i, s := range steps {
				now := start.Add(s.at)
				if s.want > 0 {
					if got := w.promise(now, s.id, room, takes, tokens); got != s.want {
						t.Errorf("step %d: %v, want %v", i, got, s.want)
					}
				} else if ok := w.claim(now, s.id); ok != s.ok {
					t.Errorf("step %d: claimed: %v", i, ok)
				}
				if w.held != s.held {
					t.Errorf("step %d: %d tokens are held, want %d", i, w.held, s.held)
				}
			}
		})
	}
}

// What cannot be promised is spread, and takes no memory.
func TestWaitlistIsBounded(t *testing.T) {
	var w waitlist
	now := time.Unix(1000, 0)
	least, most := maxWait, time.Duration(0)
	for i := range uint64(maxSlots + 10_000) {
		wait := w.promise(now, i, 0, 10*time.Second, 1)
		if i > 100 {
			least, most = min(least, wait), max(most, wait)
		}
	}
	if len(w.slots) > int(maxWait/(10*time.Second))+1 || least < maxWait/2 || most > maxWait || most-least < maxWait/4 {
		t.Errorf("%d slots, waits of %v to %v", len(w.slots), least, most)
	}
	for i := range uint64(maxSlots + 10_000) {
		w.promise(now.Add(time.Hour), i, 0, 0, 1)
	}
	if len(w.slots) != maxSlots || len(w.order) != maxSlots {
		t.Errorf("%d slots", len(w.slots))
	}
	w.advance(now.Add(2 * time.Hour))
	if len(w.slots) != 0 || len(w.order) != 0 || w.held != 0 {
		t.Errorf("%d slots, %d tokens held", len(w.slots), w.held)
	}
}

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
