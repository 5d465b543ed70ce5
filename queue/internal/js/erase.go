package js

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// EraseTimeout bounds one request of an erasure. To overwrite a message, the
// server writes and flushes the whole file that it is in.
const EraseTimeout = time.Minute

// EraseLast overwrites and deletes the last message of a subject, if there is one.
func EraseLast(ctx context.Context, stream jetstream.Stream, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, EraseTimeout)
	defer cancel()
	msg, err := LastMessage(ctx, stream, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", stream.CachedInfo().Config.Name, Explain(err))
	}
	return Erase(ctx, stream, msg.Sequence)
}

// Erase overwrites and deletes a message, if it exists.
func Erase(ctx context.Context, stream jetstream.Stream, sequence uint64) error {
	ctx, cancel := context.WithTimeout(ctx, EraseTimeout)
	defer cancel()
	err := stream.SecureDeleteMsg(ctx, sequence)
	if err == nil {
		return nil
	}
	// Another client may have replaced or deleted it in the meantime.
	switch _, missing := stream.GetMsg(ctx, sequence); {
	case errors.Is(missing, jetstream.ErrMsgNotFound):
		return nil
	case errors.Is(missing, ErrUncertain):
		err = missing
	}
	return fmt.Errorf("stream %s: erasing: %w", stream.CachedInfo().Config.Name, Explain(err))
}
