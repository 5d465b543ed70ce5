package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The protocol of atomic batches (NATS ADR-50), which the client library does
// not have: all messages of a batch are stored, next to each other, or none.
// With the server's sync_interval at always, they share an fsync.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence" // from 1, without gaps
	headerBatchCommit   = "Nats-Batch-Commit"   // of the last message

	// atomicMessages is the limit of a server with default settings.
	atomicMessages = 1000
)

// publishAtomic stores messages in one stream as one batch, and returns the
// sequence of the first. Each carries its own conditions in its headers. An
// error of the server (jetstream.APIError) means that none is stored by this
// attempt. After any other error the batch may be stored, now or later, so its
// messages need conditions that refuse a second copy.
func publishAtomic(ctx context.Context, nc *nats.Conn, msgs []*nats.Msg) (first uint64, err error) {
	id := rand.Text() // a new one for each attempt: the server may still hold a part of the last
	last := len(msgs) - 1
	part := func(i int) *nats.Msg { // a copy, since each message may be published without the batch later
		header := maps.Clone(msgs[i].Header)
		header.Set(headerBatchID, id)
		header.Set(headerBatchSequence, strconv.Itoa(i+1))
		return &nats.Msg{Subject: msgs[i].Subject, Header: header, Data: msgs[i].Data}
	}
	for i := range last {
		// Without a reply subject: the server answers the commit with an error
		// when one of these did not arrive or was refused.
		if err := nc.PublishMsg(part(i)); err != nil {
			return 0, err
		}
	}
	commit := part(last)
	commit.Header.Set(headerBatchCommit, "1")
	reply, err := nc.RequestMsgWithContext(ctx, commit)
	if err != nil {
		return 0, err
	}
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"` // of the last message
		Count    uint64              `json:"count"`
	}
	switch err := json.Unmarshal(reply.Data, &ack); {
	case err != nil:
		return 0, fmt.Errorf("reply to a batch: %w", err)
	case ack.Error != nil:
		return 0, ack.Error
	case ack.Count != uint64(len(msgs)) || ack.Sequence < ack.Count:
		return 0, errNoBatches
	}
	return ack.Sequence - ack.Count + 1, nil
}

// errNoBatches says that the server took the messages of a batch one by one.
var errNoBatches = errors.New("the server does not support atomic batches")

// refusedBatch reports whether the server refused a batch for something in it:
// a condition that one of its messages does not meet, a limit, or that it
// supports no batches. Message by message it says which, or stores them.
func refusedBatch(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, errNoBatches) || exceeds(err) || errors.As(err, &api) && !passingCodes[api.ErrorCode]
}
