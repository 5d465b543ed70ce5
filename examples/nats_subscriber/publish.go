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
	maxLine = 8 << 20

	// fullPause is how long to rest when ASSAY_RESPONSES is full: assay takes
	// responses from it as it scores them.
	fullPause = time.Second
)

// publish stores each line of in, a score item with an id, as a response of
// the run, and returns how many are stored. What it was doing when it failed
// can be done again: within the duplicate window of the stream (15 minutes) a
// response that is there already is not stored twice.
func publish(ctx context.Context, js jetstream.JetStream, run string, in io.Reader) (n int, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var item struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil || item.ID == "" {
			return n, fmt.Errorf("line %d is no item with an id; give {\"id\":\"...\",\"response\":\"...\"}", n+1)
		}
		msg := nats.NewMsg("assay.v1.responses." + run)
		msg.Data = append([]byte(nil), lines.Bytes()...)
		// Ids of different runs must not meet in the duplicate window.
		if err := store(ctx, js, msg, run+"/"+item.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, lines.Err()
}

// store publishes until JetStream has acknowledged: from then on the response
// is assay's.
func store(ctx context.Context, js jetstream.JetStream, msg *nats.Msg, id string) error {
	for {
		_, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
		if err == nil || ctx.Err() != nil {
			return err
		}
		var api *jetstream.APIError
		full := errors.As(err, &api) && api.Code == 503 // maximum bytes or messages exceeded
		// A publication that was not answered is repeated: the id makes that safe.
		if !full && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) &&
			!errors.Is(err, jetstream.ErrNoStreamResponse) {
			return fmt.Errorf("publish %s: %w", id, err)
		}
		select {
		case <-time.After(fullPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
