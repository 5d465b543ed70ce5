package js

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxLost limits the sequences that are reported one by one, of one stream at a time.
const maxLost = 1000

// ReportLost reports and returns the sequences that the server says that it has lost of
// a stream since it started: nats-server truncates a file of messages at a record whose length is
// damaged. The client library does not read this field. Sequence 0 stands for messages
// whose sequences the server does not know. domain is that of JetStream, "" for the
// domain of the server.
func ReportLost(ctx context.Context, nc *nats.Conn, domain, stream string, damage *Damage) ([]uint64, error) {
	prefix := "$JS.API"
	if domain != "" {
		prefix = "$JS." + domain + ".API"
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	reply, err := nc.RequestWithContext(ctx, prefix+".STREAM.INFO."+stream, []byte(`{"deleted_details":true}`)) // or it omits the field
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, Explain(err))
	}
	var info struct {
		Error *jetstream.APIError `json:"error"`
		State struct {
			Lost *struct {
				Messages []uint64 `json:"msgs"`
				Bytes    uint64   `json:"bytes"`
			} `json:"lost"`
		} `json:"state"`
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	if info.Error != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, info.Error)
	}
	lost := info.State.Lost
	if lost == nil {
		return nil, nil
	}
	sequences := lost.Messages
	if len(sequences) == 0 && lost.Bytes > 0 {
		sequences = []uint64{0}
	}
	for _, sequence := range sequences[:min(len(sequences), maxLost)] {
		damage.Report(DamagedRecord{Stream: stream, Sequence: sequence})
	}
	return sequences, nil
}

// ErrUndelivered is returned for a message that the leader of a stream stores, and that
// a consumer on another server skipped.
var ErrUndelivered = errors.New("the server of the consumer lacks a message that the leader of the stream has")

// Gap is a range of sequences that a read has not returned, with both ends.
type Gap struct{ First, Last uint64 }

// Unreadable returns the sequences within gaps that the stream counts as stored, and
// that the server cannot read because its own checksum differs. A message that can be
// read is an error that wraps ErrUndelivered and nats.ErrTimeout: a server behind the
// leader did not deliver it.
func Unreadable(ctx context.Context, stream jetstream.Stream, gaps []Gap) (damaged []uint64, err error) {
	if len(gaps) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, EraseTimeout)
	defer cancel()
	info, err := stream.Info(ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return nil, err
	}
	deleted := make(map[uint64]bool, len(info.State.Deleted))
	for _, sequence := range info.State.Deleted {
		deleted[sequence] = true
	}
	var undelivered []uint64
	for _, gap := range gaps {
		for sequence := max(gap.First, info.State.FirstSeq); sequence <= min(gap.Last, info.State.LastSeq); sequence++ {
			if deleted[sequence] {
				continue
			}
			switch _, err := stream.GetMsg(ctx, sequence); {
			case err == nil:
				undelivered = append(undelivered, sequence)
			case errors.Is(err, jetstream.ErrMsgNotFound):
				damaged = append(damaged, sequence)
			default:
				return damaged, err
			}
		}
	}
	if len(damaged)+len(undelivered) == 0 {
		return nil, nil
	}
	// Some may have been deleted in the meantime.
	if info, err = stream.Info(ctx, jetstream.WithDeletedDetails(true)); err != nil {
		return nil, err
	}
	for _, sequence := range info.State.Deleted {
		deleted[sequence] = true
	}
	gone := func(sequence uint64) bool { return deleted[sequence] || sequence < info.State.FirstSeq }
	damaged = slices.DeleteFunc(damaged, gone)
	if undelivered = slices.DeleteFunc(undelivered, gone); len(undelivered) > 0 {
		return damaged, fmt.Errorf("%w: sequence %d (%w)", ErrUndelivered, undelivered[0], nats.ErrTimeout)
	}
	return damaged, nil
}
