package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// eraseTimeout bounds one request of an erasure. To overwrite a message, the
// server writes and flushes the whole file that it is in.
const eraseTimeout = time.Minute

// Erase removes all that is kept of a response: the records of all raters, the
// scored response itself, its rewards and its dead letters, which are
// overwritten on disk. It returns how many records that were. From then on items
// of that id are rejected, also such as were not known before; a label that
// another process stores at this very moment is removed by each process that
// reads of both. Its error wraps feedback.ErrUnavailable, or is that of ctx;
// erasing again is safe and ends what was begun.
//
// What a correction replaced before is gone as well, but not overwritten: the
// server frees its bytes when it compacts the file that they are in. The same is
// true of the files in which the server staged a batch of labels, and which it
// deleted when it had stored them.
func (f *Feedback) Erase(ctx context.Context, id string) (records int, err error) {
	if err := f.await(ctx, 0); err != nil {
		return 0, err
	}
	hash := feedback.HashOf(id)
	subjects, err := f.recordsOf(ctx, hash)
	if err != nil {
		return 0, unavailable(ctx, err)
	}
	err = f.bury(ctx, hash)
	if errors.Is(err, feedback.ErrStoreFull) {
		// A tombstone is smaller than what it stands for. Should this process
		// end here, the caller has no answer and erases again.
		if err = f.remove(ctx, hash); err == nil {
			err = f.bury(ctx, hash)
		}
	}
	if err != nil {
		return 0, err
	}
	if err := errors.Join(f.remove(ctx, hash), f.removeResults(ctx, hash)); err != nil {
		return 0, unavailable(ctx, err)
	}
	return len(subjects), nil
}

// bury stores the tombstone of an id, unless there is one.
func (f *Feedback) bury(ctx context.Context, id feedback.Hash) error {
	if f.Index().Erased(id) {
		return nil
	}
	return f.tombstone(ctx, id)
}

// tombstone stores the tombstone of an id.
func (f *Feedback) tombstone(ctx context.Context, id feedback.Hash) error {
	msg := &nats.Msg{Subject: tombstoneSubject(id), Header: nats.Header{}}
	msg.Header.Set(jetstream.MsgIDHeader, rand.Text())
	sign(msg.Subject, msg.Header)
	sequence, err := f.put(ctx, msg)
	if err != nil {
		return err
	}
	f.Index().Erase(id, sequence)
	return nil
}

// recordsOf returns the subjects of the stored records of an id.
func (f *Feedback) recordsOf(ctx context.Context, id feedback.Hash) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	info, err := f.stream.Info(ctx, jetstream.WithSubjectFilter(subjectRecords+"."+id.String()+".*"))
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", StreamFeedback, explain(err))
	}
	return info.State.Subjects, nil
}

// remove overwrites all messages of an id but the tombstone.
func (f *Feedback) remove(ctx context.Context, id feedback.Hash) error {
	const rounds = 10 // more only if somebody stores again and again
	if f.kept != nil {
		if err := overwrite(ctx, f.kept, scoredSubject(id)); err != nil {
			return err
		}
	}
	for range rounds {
		subjects, err := f.recordsOf(ctx, id)
		if err != nil || len(subjects) == 0 {
			return err
		}
		for subject := range subjects {
			if err := overwrite(ctx, f.stream, subject); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("stream %s: records of an erased id come faster than they can be removed", StreamFeedback)
}

// overwrite deletes the message of a subject, if there is one.
func overwrite(ctx context.Context, stream jetstream.Stream, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	name := stream.CachedInfo().Config.Name
	msg, err := lastMessage(ctx, stream, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, explain(err))
	}
	return overwriteMessage(ctx, stream, msg.Sequence)
}

// overwriteMessage deletes a message, if it is there.
func overwriteMessage(ctx context.Context, stream jetstream.Stream, sequence uint64) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	err := stream.SecureDeleteMsg(ctx, sequence)
	if err == nil {
		return nil
	}
	// Somebody else may have replaced or deleted it meanwhile.
	if _, missing := stream.GetMsg(ctx, sequence); errors.Is(missing, jetstream.ErrMsgNotFound) {
		return nil
	}
	return fmt.Errorf("stream %s: erasing: %w", stream.CachedInfo().Config.Name, explain(err))
}

// sweeper remembers the ids of tombstones that were read, until their records
// are removed. That is for the process that dies in between, and for records
// that somebody stored who did not know of the tombstone yet.
type sweeper struct {
	mu   *sync.Mutex
	ids  map[feedback.Hash]bool // true: the tombstone was overwritten
	wake chan struct{}
}

func newSweeper() sweeper {
	return sweeper{mu: new(sync.Mutex), ids: map[feedback.Hash]bool{}, wake: make(chan struct{}, 1)}
}

// add remembers an id, and whether its tombstone must be stored again.
func (s sweeper) add(id feedback.Hash, overwritten bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[id] = s.ids[id] || overwritten
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take empties the sweeper.
func (s sweeper) take() map[feedback.Hash]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := maps.Clone(s.ids)
	clear(s.ids)
	return ids
}

// sweep removes what the tombstones say, until ctx ends.
func (f *Feedback) sweep(ctx context.Context) {
	for failures := uint64(0); ctx.Err() == nil; {
		select {
		case <-f.sweeper.wake:
		case <-ctx.Done():
			return
		}
		failed := error(nil)
		for id, overwritten := range f.sweeper.take() {
			err := f.remove(ctx, id)
			if err == nil && overwritten {
				err = f.tombstone(ctx, id)
			}
			if err != nil {
				failed = err
				f.sweeper.add(id, overwritten)
			}
		}
		if failed == nil {
			failures = 0
			continue
		}
		failures++
		if ctx.Err() == nil {
			f.log.Warn().Err(failed).Msg("cannot remove what was erased; trying again")
			pause(ctx, retryDelay(failures, feedbackRetryBase, feedbackRetryMax))
		}
	}
}
