package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// sweep removes the chunks of objects that were never finished, once the last
// of them has the given age.
func (o *objects) sweep(ctx context.Context, age time.Duration) error {
	orphans, err := subjects(ctx, o.stream, chunkSubject+">") // before the names: what comes later is no orphan
	if err != nil {
		return err
	}
	names, err := o.names(ctx, "")
	if err != nil {
		return err
	}
	for _, name := range names {
		info, _, err := o.info(ctx, name)
		if err != nil {
			return err
		}
		if info != nil {
			delete(orphans, chunkSubject+info.NUID)
		}
	}
	for subject := range orphans {
		err := retry(ctx, func(ctx context.Context) error { return o.sweepOne(ctx, subject, age) })
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
	}
	return nil
}

func (o *objects) sweepOne(ctx context.Context, subject string, age time.Duration) error {
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
