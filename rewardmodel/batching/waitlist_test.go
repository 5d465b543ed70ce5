package batching

import (
	"testing"
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
