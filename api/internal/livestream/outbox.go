package livestream

import (
	"sync"

	"assay/api/internal/failure"
	"assay/rewardmodel"
)

// messageBytes is the memory of a message in addition to its bytes.
const messageBytes = 64

// outbox holds the messages that were not sent yet, up to failure.MaxReply bytes: a
// client of HTTP/1.1 may send all text before it reads. One goroutine puts, one takes.
type outbox struct {
	memory  *rewardmodel.Reservation
	mu      sync.Mutex
	pending [][]byte
	held    int64 // bytes put and not sent
	closed  bool
	arrived chan struct{} // has a token when there may be something to take
}

func newOutbox(memory *rewardmodel.Reservation) *outbox {
	return &outbox{memory: memory, arrived: make(chan struct{}, 1)}
}

func (b *outbox) put(message []byte) error {
	n := int64(cap(message) + messageBytes)
	if err := b.memory.Grow(n); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+n > failure.MaxReply {
		b.memory.Shrink(n)
		return failure.TooLarge("", "the client has not read %d bytes of events; read them while you send", b.held)
	}
	b.add(message)
	return nil
}

// force puts a message without a limit.
func (b *outbox) force(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(message)
}

func (b *outbox) add(message []byte) {
	b.held += int64(cap(message) + messageBytes)
	b.pending = append(b.pending, message)
	signal(b.arrived)
}

// take waits for messages and returns all of them, or false once there are none and
// the outbox is closed.
func (b *outbox) take() ([][]byte, bool) {
	for {
		b.mu.Lock()
		messages, closed := b.pending, b.closed
		b.pending = nil
		b.mu.Unlock()
		switch {
		case len(messages) > 0:
			return messages, true
		case closed:
			return nil, false
		}
		<-b.arrived
	}
}

// sent releases the memory of a message. A forced one was not charged, which does not
// matter: the session is over.
func (b *outbox) sent(message []byte) {
	n := int64(cap(message) + messageBytes)
	b.memory.Shrink(n)
	b.mu.Lock()
	b.held -= n
	b.mu.Unlock()
}

// discard drops what is held: the client cannot receive it.
func (b *outbox) discard() {
	b.mu.Lock()
	b.pending = nil
	b.mu.Unlock()
}

// close lets take return false after the last message.
func (b *outbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	signal(b.arrived)
}
