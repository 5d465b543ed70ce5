package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	maxLineBytes = 8 << 20

	// retryInterval is the wait before publishing again, for example while
	// ASSAY_RESPONSES is full: assay removes responses as it scores them.
	retryInterval = time.Second
)

// publish stores each line of in, a score item with an id, as a response of the
// run, and returns how many it stored. It can be repeated after a failure: within
// the duplicate window of the stream (15 minutes), JetStream discards responses
// that are already stored.
func publish(ctx context.Context, js jetstream.JetStream, run string, in io.Reader) (n int, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var item struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil || item.ID == "" {
			return n, fmt.Errorf("line %d: not an item with an id: use {\"id\":\"...\",\"response\":\"...\"}", n+1)
		}
		msg := nats.NewMsg("assay.v1.responses." + run)
		msg.Data = append([]byte(nil), lines.Bytes()...)
		// The prefix keeps the ids of different runs apart.
		if err := store(ctx, js, msg, run+"/"+item.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, lines.Err()
}

// store publishes until JetStream acknowledges the message, which is then
// durable.
func store(ctx context.Context, js jetstream.JetStream, msg *nats.Msg, id string) error {
	for {
		_, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
		if err == nil || ctx.Err() != nil {
			return err
		}
		var api *jetstream.APIError
		full := errors.As(err, &api) && api.Code == 503 // maximum bytes or messages exceeded
		// Publishing again without an acknowledgement is safe: the id deduplicates.
		if !full && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) &&
			!errors.Is(err, jetstream.ErrNoStreamResponse) {
			return fmt.Errorf("publish %s: %w", id, err)
		}
		if err := sleep(ctx, retryInterval); err != nil {
			return err
		}
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
