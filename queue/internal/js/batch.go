package js

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

// MaxBatch is the number of messages in an atomic batch that a server with
// default settings accepts.
const MaxBatch = 1000

// Headers of atomic batches (NATS ADR-50), which the client library does not
// implement: all messages of a batch are stored, next to each other, or none. With
// the server's sync_interval at always, they share an fsync.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence" // from 1, without gaps
	headerBatchCommit   = "Nats-Batch-Commit"   // of the last message
)

// PublishBatch stores messages in one stream as one atomic batch, and returns the
// sequence of the first. Each message carries its own conditions in its headers. An
// error of the server (jetstream.APIError) means that this attempt stored none.
// After any other error the batch may be stored, now or later, so its messages
// need conditions that reject a second copy.
func PublishBatch(ctx context.Context, nc *nats.Conn, msgs []*nats.Msg) (first uint64, err error) {
	id := rand.Text() // a new one for each attempt: the server may still hold a part of the last
	last := len(msgs) - 1
	part := func(i int) *nats.Msg { // a copy, since each message may be published without the batch later
		header := maps.Clone(msgs[i].Header)
		header.Set(headerBatchID, id)
		header.Set(headerBatchSequence, strconv.Itoa(i+1))
		return &nats.Msg{Subject: msgs[i].Subject, Header: header, Data: msgs[i].Data}
	}
	for i := range last {
		// Without a reply subject: the server replies to the commit with an error
		// when one of these did not arrive or was rejected.
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

// errNoBatches reports that the server stored the messages of a batch one by one.
var errNoBatches = errors.New("the server does not support atomic batches")

// BatchRejected reports whether the server rejected a batch for something in it: a
// condition that one of its messages does not meet, a limit, or that it supports no
// batches. Published one by one, each message is stored or shows the reason.
func BatchRejected(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, errNoBatches) || TooLarge(err) || errors.As(err, &api) && !retryableCode(api.ErrorCode)
}
