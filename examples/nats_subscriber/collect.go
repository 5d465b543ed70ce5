package main

import (
	"bufio"
	"bytes"
	"context"
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
	fetch     = 256
	fetchWait = time.Second

	// ackWait is after how long without an acknowledgement a message is
	// delivered again, to this process or to the one that follows it.
	ackWait = 30 * time.Second
)

// source is one of the two streams that a run's answers come from.
type source struct {
	stream, subject string
	line            func(c *collector, msg jetstream.Msg) (line, bool)
}

// line is what is written of a message. Stream and Sequence tell it from all
// others, so that a message that is delivered again is written once.
type line struct {
	Stream   string          `json:"stream"`
	Sequence uint64          `json:"sequence"`
	ID       string          `json:"id"`
	Version  string          `json:"model_version,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"` // as POST /v1/score has it
	Error    *failure        `json:"error,omitempty"`  // of a dead letter: never a reward
}

// failure says why there is no reward.
type failure struct {
	Reason  string `json:"reason"`
	Code    string `json:"code,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// key tells a message from all others.
type key struct {
	stream   string
	sequence uint64
}

// collector writes the rewards and dead letters of a run to a file.
type collector struct {
	js   jetstream.JetStream
	run  string
	say  io.Writer
	out  *os.File
	seen map[key]bool
}

// collect appends to the file until it has expect lines (0: until ctx ends).
// A message is acknowledged only after its line is on disk; one that comes
// again, because a process died between the two, is known by its sequence.
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
			return nil // what is not acknowledged comes again
		case err == nil:
			fmt.Fprintf(c.say, "%d answers are in %s\n", len(c.seen), path)
			return nil
		case errors.As(err, &disk):
			return err
		}
		fmt.Fprintln(c.say, "trying again:", err) // the server is away, and comes back
		select {
		case <-time.After(fetchWait):
		case <-ctx.Done():
		}
	}
}

// follow takes from all sources until the file has expect lines.
func (c *collector) follow(ctx context.Context, sources []source, expect int) error {
	consumers := make([]jetstream.Consumer, len(sources))
	for i, s := range sources {
		// The server keeps how far a durable consumer is. Rewards are kept for
		// days, so one that is made later starts with the first.
		var err error
		consumers[i], err = c.js.CreateOrUpdateConsumer(ctx, s.stream, jetstream.ConsumerConfig{
			Durable:       "collect-" + c.run,
			FilterSubject: s.subject,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       ackWait,
			MaxAckPending: 2 * fetch,
		})
		if err != nil {
			return fmt.Errorf("durable consumer of %s: %w", s.stream, err)
		}
	}
	for expect == 0 || len(c.seen) < expect {
		for i, s := range sources {
			if err := c.take(ctx, consumers[i], s); err != nil {
				return err
			}
		}
	}
	return nil
}

// take writes what one pull brings.
func (c *collector) take(ctx context.Context, consumer jetstream.Consumer, s source) error {
	pull, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	batch, err := consumer.Fetch(fetch, jetstream.FetchContext(pull))
	if err != nil {
		return err
	}
	var held []jetstream.Msg
	var buf bytes.Buffer
	for msg := range batch.Messages() {
		held = append(held, msg)
		l, ours := s.line(c, msg)
		if !ours {
			continue
		}
		meta, err := msg.Metadata()
		if err != nil {
			fmt.Fprintf(c.say, "a message of %s: %v\n", msg.Subject(), err)
			continue
		}
		l.Stream, l.Sequence = s.stream, meta.Sequence.Stream
		k := key{l.Stream, l.Sequence}
		if c.seen[k] {
			fmt.Fprintf(c.say, "%s %d came again, delivery %d\n", k.stream, k.sequence, meta.NumDelivered)
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
	for _, msg := range held {
		if err := msg.Ack(); err != nil {
			return err
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// reward is the line of a reward.
func (c *collector) reward(msg jetstream.Msg) (line, bool) {
	var result struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(msg.Data(), &result); err != nil {
		fmt.Fprintf(c.say, "a message of %s is no JSON: %v\n", msg.Subject(), err)
		return line{}, false
	}
	return line{ID: result.ID, Version: msg.Headers().Get("Assay-Model-Version"), Result: msg.Data()}, true
}

// dead is the line of a dead letter, if its response was one of this run.
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

// open reads what earlier processes wrote, and cuts off a line that one of
// them was writing when it was killed.
func (c *collector) open(path string) (err error) {
	if c.out, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	c.seen = map[key]bool{}
	var whole int64
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
			return errors.Join(fmt.Errorf("%s at byte %d: %w", path, whole, err), c.out.Close())
		}
		c.seen[key{l.Stream, l.Sequence}] = true
		whole += int64(len(text))
	}
	if err := c.out.Truncate(whole); err != nil {
		return errors.Join(err, c.out.Close())
	}
	_, err = c.out.Seek(whole, io.SeekStart)
	return err
}
