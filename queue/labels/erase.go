package labels

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Erase removes all that is stored of a response: the records of all raters, the
// scored response, and what Config.EraseResults finds. All of it is overwritten on
// disk. It returns the number of records. From then on items of that id are
// rejected, new ones too; a label that another process stores at the same moment is
// removed by each process that reads both. Its error wraps feedback.ErrUnavailable, or is
// that of ctx; erasing again is safe and finishes an interrupted erasure.
//
// Records that a correction replaced earlier are removed as well, but not overwritten:
// the server frees their bytes when it compacts the file that they are in. The same
// is true of the files in which the server staged a batch of labels, and which it
// deleted after it stored them.
func (l *Log) Erase(ctx context.Context, id string) (records int, err error) {
	if err := l.await(ctx, 0); err != nil {
		return 0, err
	}
	hash := feedback.HashOf(id)
	subjects, err := l.recordsOf(ctx, hash)
	if err != nil {
		return 0, unavailable(ctx, err)
	}
	err = l.ensureTombstone(ctx, hash)
	if errors.Is(err, feedback.ErrStoreFull) {
		// A tombstone is smaller than the records that it replaces. If this
		// process dies here, the caller gets no reply and erases again.
		if err = l.remove(ctx, hash); err == nil {
			err = l.ensureTombstone(ctx, hash)
		}
	}
	if err != nil {
		return 0, err
	}
	err = l.remove(ctx, hash)
	if l.cfg.EraseResults != nil {
		err = errors.Join(err, l.cfg.EraseResults(ctx, hash))
	}
	if err != nil {
		return 0, unavailable(ctx, err)
	}
	return len(subjects), nil
}

// ensureTombstone stores the tombstone of an id, unless there is one.
func (l *Log) ensureTombstone(ctx context.Context, id feedback.Hash) error {
	if l.Index().Erased(id) {
		return nil
	}
	return l.putTombstone(ctx, id)
}

// putTombstone stores the tombstone of an id.
func (l *Log) putTombstone(ctx context.Context, id feedback.Hash) error {
	msg := &nats.Msg{Subject: tombstoneSubject(id), Header: nats.Header{}}
	msg.Header.Set(jetstream.MsgIDHeader, rand.Text())
	js.Seal(msg.Subject, msg.Header, nil)
	sequence, err := l.put(ctx, msg)
	if err != nil {
		return err
	}
	l.Index().Erase(id, sequence)
	return nil
}

// recordsOf returns the subjects of the stored records of an id.
func (l *Log) recordsOf(ctx context.Context, id feedback.Hash) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, js.EraseTimeout)
	defer cancel()
	info, err := l.stream.Info(ctx, jetstream.WithSubjectFilter(recordSubjects(id)))
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", StreamFeedback, js.Explain(err))
	}
	return info.State.Subjects, nil
}

// remove overwrites all messages of an id except the tombstone.
func (l *Log) remove(ctx context.Context, id feedback.Hash) error {
	const rounds = 10 // more are needed only if a client keeps storing records
	if err := l.removeScored(ctx, id); err != nil {
		return err
	}
	for range rounds {
		subjects, err := l.recordsOf(ctx, id)
		if err != nil || len(subjects) == 0 {
			return err
		}
		for subject := range subjects {
			if err := js.EraseLast(ctx, l.stream, subject); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("stream %s: records of an erased id arrive faster than they can be removed", StreamFeedback)
}
