package livestream

import (
	"context"
	"strings"
	"sync"

	"assay/rewardmodel"
)

// maxPending is how many bytes of text wait for the scorer before the transport stops
// reading, which slows the client down. One message may exceed it.
const maxPending = 256 << 10

// inbox holds the text that arrived and was not scored yet. One goroutine puts, one
// takes.
type inbox struct {
	memory  *rewardmodel.Reservation
	mu      sync.Mutex
	pending strings.Builder
	ended   bool
	err     error         // why it ended
	stopped bool          // nothing is taken any more
	arrived chan struct{} // has a token when there may be something to take
	taken   chan struct{} // has a token when there may be room
}

func newInbox(memory *rewardmodel.Reservation) *inbox {
	return &inbox{memory: memory, arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

// signal wakes the goroutine that waits for a token, now or later.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put adds text, once there is room. It fails if the memory of the request is used up.
func (b *inbox) put(text string) error {
	if text == "" {
		return nil
	}
	if err := b.memory.Grow(int64(len(text))); err != nil {
		return err
	}
	for !b.add(text) {
		<-b.taken
	}
	signal(b.arrived)
	return nil
}

// add reports whether there was room. What arrives after the end of the session is
// dropped.
func (b *inbox) add(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return true
	}
	if n := b.pending.Len(); n > 0 && n+len(text) > maxPending {
		return false
	}
	b.pending.WriteString(text)
	return true
}

// end ends the text; err is why, nil if it is complete.
func (b *inbox) end(err error) {
	b.mu.Lock()
	b.ended, b.err = true, err
	b.mu.Unlock()
	signal(b.arrived)
}

// stop drops what is held, and what is put from now on.
func (b *inbox) stop() {
	b.mu.Lock()
	b.stopped = true
	b.pending.Reset()
	b.mu.Unlock()
	signal(b.taken)
}

// take waits for text and returns all of it. After the end, more is false, or it
// returns the error of the end. It also returns when ctx ends or done is closed.
func (b *inbox) take(ctx context.Context, done <-chan struct{}) (text string, more bool, err error) {
	for {
		b.mu.Lock()
		text, ended, err := b.pending.String(), b.ended, b.err
		b.pending.Reset()
		b.mu.Unlock()
		signal(b.taken)
		switch {
		case text != "":
			return text, true, nil
		case ended:
			return "", false, err
		}
		select {
		case <-b.arrived:
		case <-ctx.Done():
			return "", false, context.Cause(ctx)
		case <-done:
			return "", false, nil
		}
	}
}

// scored releases the memory of text that was taken.
func (b *inbox) scored(text string) { b.memory.Shrink(int64(len(text))) }
