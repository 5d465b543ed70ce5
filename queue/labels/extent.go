package labels

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/queue/internal/js"

	"github.com/nats-io/nats.go"
)

const (
	// keyExtent is the key of the bucket of Config.State with the extent of the stream.
	keyExtent = "feedback.extent"

	// extentInterval is how often the extent is compared and stored. A process also
	// stores it when it stops.
	extentInterval = time.Minute

	// extentTimeout bounds that when a process stops.
	extentTimeout = 2 * time.Second

	// acknowledgementWait is how long an extent waits for the acknowledgement of a record.
	acknowledgementWait = 500 * time.Millisecond
)

// extent is the maximum that the stream of labels ever had. Neither number becomes
// smaller, whatever clients do: an erased id has its tombstone. It is stored in another
// stream because nats-server does not report every loss: a file that was cut off between
// two records while it was stopped only looks as if labels had been corrected.
//
// The server lists the records of an atomic batch before it syncs them, and until then a power
// failure takes them: so an extent is stored only once it is acknowledged.
type extent struct {
	Created time.Time `json:"created"` // of the stream; of another stream it says nothing
	Last    uint64    `json:"last"`    // sequence
	IDs     int       `json:"ids"`     // with a label, a withdrawn one included, or erased
}

// watchExtent compares the stream with its extent, and stores that, until ctx ends.
func (l *Log) watchExtent(ctx context.Context) {
	tick := time.NewTicker(extentInterval)
	defer tick.Stop()
	for {
		if _, err := l.compareExtent(ctx); err != nil && ctx.Err() == nil {
			l.log.Debug().Err(err).Msg("cannot compare the feedback stream with its extent")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// closeExtent stores the extent, unless the server is away.
func (l *Log) closeExtent() {
	if !l.keepsExtent() || l.nc.Status() != nats.CONNECTED || l.writable() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), extentTimeout)
	defer cancel()
	if _, err := l.compareExtent(ctx); err != nil {
		l.log.Debug().Err(err).Msg("cannot store the extent of the feedback stream")
	}
}

// keepsExtent is false if labels expire: then the number of ids becomes smaller.
func (l *Log) keepsExtent() bool { return l.cfg.State != nil && l.cfg.MaxAge == 0 }

// compareExtent reports what the stream lacks of its extent, "" for nothing or if the
// stored extent is damaged, and stores what it has more.
func (l *Log) compareExtent(ctx context.Context) (lacks string, err error) {
	if !l.keepsExtent() {
		return "", nil
	}
	// Before the stream, which another process may extend in between.
	most, revision, err := js.Load[extent](ctx, l.cfg.State, keyExtent)
	if errors.Is(err, js.ErrDamaged) { // reported; an operator deletes it
		return "", nil
	}
	if err != nil {
		return "", err
	}
	info, err := l.info(ctx)
	if err != nil {
		return "", err
	}
	if err := l.await(ctx, info.State.LastSeq); err != nil {
		return "", err
	}
	now := extent{info.Created, info.State.LastSeq, l.Index().IDs()}
	if most.Created.Equal(now.Created) {
		lacks = now.lacks(most)
		now.Last, now.IDs = max(now.Last, most.Last), max(now.IDs, most.IDs)
	}
	if lacks != "" {
		l.cfg.Damage.Report(js.DamagedRecord{Stream: StreamFeedback})
	}
	if now.Last == most.Last && now.IDs == most.IDs || !l.acknowledged(ctx) {
		return lacks, nil
	}
	if _, err = js.Store(ctx, l.cfg.State, keyExtent, now, revision); errors.Is(err, js.ErrChanged) {
		err = nil // another process has stored it
	}
	return lacks, err
}

// acknowledged reports whether the server has acknowledged a record of this process behind all
// that the index has. It has then synced them all, since it stores one after another.
func (l *Log) acknowledged(ctx context.Context) bool {
	l.mu.Lock()
	none := l.confirmed == 0
	l.mu.Unlock()
	if none {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, acknowledgementWait)
	defer cancel()
	last, err := l.lastSequence(ctx)
	if err != nil {
		return false
	}
	for {
		l.mu.Lock()
		moved, reached := l.moved, l.confirmed >= last
		l.mu.Unlock()
		if reached {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// acknowledge notes the sequence of a record that the server has acknowledged.
func (l *Log) acknowledge(sequence uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence > l.confirmed {
		l.confirmed = sequence
		l.notify()
	}
}

// lacks describes what is missing of an earlier extent of the same stream, "" for nothing.
func (e extent) lacks(most extent) string {
	switch {
	case e.IDs < most.IDs:
		return fmt.Sprintf("the stream had labels of %d responses, and has %d: a file lost its end", most.IDs, e.IDs)
	case e.Last < most.Last:
		return fmt.Sprintf("the stream had sequences up to %d, and has %d: a file lost its end", most.Last, e.Last)
	}
	return ""
}
