package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	fetchSize = 256
	fetchWait = time.Second

	// ackWait is the time after which an unacknowledged message is redelivered, to
	// this process or to its successor.
	ackWait = 30 * time.Second
)

// source is a stream with results of the run.
type source struct {
	stream, subject string
	parse           func(c *collector, msg jetstream.Msg) (line, bool)
}

// line is the output for a message. Stream and Sequence identify the message, so
// that a redelivered message is written only once.
type line struct {
	Stream   string          `json:"stream"`
	Sequence uint64          `json:"sequence"`
	ID       string          `json:"id"`
	Version  string          `json:"model_version,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"` // as in the response of POST /v1/score
	Error    *failure        `json:"error,omitempty"`  // set for a dead letter, which has no result
}

// failure is the reason why there is no reward.
type failure struct {
	Reason  string `json:"reason"`
	Code    string `json:"code,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// key identifies a message.
type key struct {
	stream   string
	sequence uint64
}

// collector writes the rewards and dead letters of a run to a file.
type collector struct {
	js   jetstream.JetStream
	run  string
	log  io.Writer
	out  *os.File
	seen map[key]bool
}

// collect appends to the file until it has expect lines, or until ctx ends if
// expect is 0. It acknowledges a message only after its line is on disk. If it is
// killed in between, the sequence identifies the redelivered message.
func (c *collector) collect(ctx context.Context, path string, expect int) (err error) {
	if err := c.open(path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.out.Close()) }()
	sources := []source{
		{"ASSAY_REWARDS", "assay.v1.rewards." + c.run, (*collector).reward},
		{"ASSAY_DEAD", "assay.v1.dead.>", (*collector).dead},
	}
	for {
		err := c.follow(ctx, sources, expect)
		var disk *fs.PathError
		switch {
		case ctx.Err() != nil:
			return nil // unacknowledged messages are redelivered
		case err == nil:
			fmt.Fprintf(c.log, "%d results in %s\n", len(c.seen), path)
			return nil
		case errors.As(err, &disk):
			return err
		}
		fmt.Fprintln(c.log, "retrying:", err)
		_ = sleep(ctx, fetchWait) // the end of ctx ends the loop
	}
}

// follow fetches from all sources until the file has expect lines.
func (c *collector) follow(ctx context.Context, sources []source, expect int) error {
	consumers := make([]jetstream.Consumer, len(sources))
	for i, s := range sources {
		// The server remembers the position of a durable consumer. The streams retain
		// messages for days, so a consumer may be created after the first one.
		var err error
		consumers[i], err = c.js.CreateOrUpdateConsumer(ctx, s.stream, jetstream.ConsumerConfig{
			Durable:       "collect-" + c.run,
			FilterSubject: s.subject,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       ackWait,
			MaxAckPending: 2 * fetchSize,
		})
		if err != nil {
			return fmt.Errorf("durable consumer of %s: %w", s.stream, err)
		}
	}
	for expect == 0 || len(c.seen) < expect {
		for i, s := range sources {
			if err := c.fetch(ctx, consumers[i], s); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch writes the messages of one pull request.
func (c *collector) fetch(ctx context.Context, consumer jetstream.Consumer, s source) error {
	pull, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	batch, err := consumer.Fetch(fetchSize, jetstream.FetchContext(pull))
	if err != nil {
		return err
	}
	var messages []jetstream.Msg
	var buf bytes.Buffer
	for msg := range batch.Messages() {
		messages = append(messages, msg)
		if !intact(msg) {
			fmt.Fprintf(c.log, "skipped a damaged message on %s: its checksum differs\n", msg.Subject())
			continue
		}
		l, ok := s.parse(c, msg)
		if !ok {
			continue
		}
		meta, err := msg.Metadata()
		if err != nil {
			fmt.Fprintf(c.log, "skipped a message on %s: %v\n", msg.Subject(), err)
			continue
		}
		l.Stream, l.Sequence = s.stream, meta.Sequence.Stream
		k := key{l.Stream, l.Sequence}
		if c.seen[k] {
			fmt.Fprintf(c.log, "%s %d was redelivered, delivery %d\n", k.stream, k.sequence, meta.NumDelivered)
			continue
		}
		c.seen[k] = true
		if err := json.NewEncoder(&buf).Encode(l); err != nil {
			return err
		}
	}
	if _, err := c.out.Write(buf.Bytes()); err != nil {
		return err
	}
	if err := c.out.Sync(); err != nil {
		return err
	}
	for _, msg := range messages {
		if err := msg.Ack(); err != nil {
			return err
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// intact compares the payload of a message with the checksum that assay stored with it.
func intact(msg jetstream.Msg) bool {
	payload, _, sealed := strings.Cut(msg.Headers().Get("Assay-Checksum"), ".")
	sum := sha256.Sum256(msg.Data())
	return !sealed || payload == hex.EncodeToString(sum[:8])
}

// reward returns the line for a reward.
func (c *collector) reward(msg jetstream.Msg) (line, bool) {
	var result struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(msg.Data(), &result); err != nil {
		fmt.Fprintf(c.log, "skipped invalid JSON on %s: %v\n", msg.Subject(), err)
		return line{}, false
	}
	return line{ID: result.ID, Version: msg.Headers().Get("Assay-Model-Version"), Result: msg.Data()}, true
}

// dead returns the line for a dead letter, if its response belongs to this run.
func (c *collector) dead(msg jetstream.Msg) (line, bool) {
	h := msg.Headers()
	if h.Get("Assay-Subject") != "assay.v1.responses."+c.run {
		return line{}, false
	}
	return line{
		ID: strings.TrimPrefix(h.Get("Assay-Msg-Id"), c.run+"/"),
		Error: &failure{
			Reason:  msg.Subject()[strings.LastIndexByte(msg.Subject(), '.')+1:],
			Code:    h.Get("Assay-Error-Code"),
			Field:   h.Get("Assay-Error-Field"),
			Message: h.Get("Assay-Error"),
		},
	}, true
}

// open reads the lines of earlier processes and truncates a partial last line,
// which a killed process leaves.
func (c *collector) open(path string) (err error) {
	if c.out, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	c.seen = map[key]bool{}
	var complete int64
	lines := bufio.NewReader(c.out)
	for {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		var l line
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s at byte %d: %w", path, complete, err), c.out.Close())
		}
		c.seen[key{l.Stream, l.Sequence}] = true
		complete += int64(len(text))
	}
	if err := c.out.Truncate(complete); err != nil {
		return errors.Join(err, c.out.Close())
	}
	_, err = c.out.Seek(complete, io.SeekStart)
	return err
}
