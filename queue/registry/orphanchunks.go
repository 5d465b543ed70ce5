package registry

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/queue/internal/js"
	"assay/rewardmodel/retrain"
)

// removeOrphans removes the chunks of objects that were never finished, if the last of
// them has the given age.
func (o *objectStore) removeOrphans(ctx context.Context, age time.Duration) error {
	orphans, err := js.SubjectCounts(ctx, o.stream, SubjectChunks+">") // before the names: a chunk that is stored later is not an orphan
	if err != nil {
		return err
	}
	names, err := o.names(ctx, "")
	if err != nil {
		return err
	}
	for _, name := range names {
		info, _, err := o.info(ctx, name)
		if errors.Is(err, retrain.ErrDamaged) {
			return nil // any of the chunks may be those of this object
		}
		if err != nil {
			return err
		}
		if info != nil {
			delete(orphans, SubjectChunks+info.NUID)
		}
	}
	for subject := range orphans {
		err := js.Retry(ctx, func(ctx context.Context) error { return o.removeOrphan(ctx, subject, age) })
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
	}
	return nil
}

func (o *objectStore) removeOrphan(ctx context.Context, subject string, age time.Duration) error {
	last, err := o.stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return err
	}
	info, err := o.stream.Info(ctx)
	if err != nil {
		return err
	}
	if info.TimeStamp.Sub(last.Time) < age { // both are times of the server
		return nil
	}
	return o.stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
}
