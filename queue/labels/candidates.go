package labels

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

const (
	// maxReads is how many items of one batch are read at the same time.
	maxReads = 128

	// recordRoom is what a record needs for its subject and headers, in bytes: up to
	// 1 KiB of them are the names of rewardmodel.MaxAspects aspects.
	recordRoom = 3 << 10
)

// candidate is an item that may be stored.
type candidate struct {
	position int // in the batch
	item     feedback.Entry
	record   feedback.Record
	mark     feedback.Mark
	token    string // distinguishes the message from an equal one of another process
	condition
}

// candidates completes the items, and sets the verdict of those that cannot be
// stored.
func (l *Log) candidates(ctx context.Context, items []feedback.Entry, by string, verdicts []verdict) ([]*candidate, error) {
	all := make([]*candidate, len(items))
	group, completing := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	complete := func(i int) error {
		record, code, message, err := l.record(completing, items[i].Item, by)
		if code != "" {
			verdicts[i] = rejected(items[i], code, message)
		}
		all[i] = &candidate{position: i, item: items[i], record: record, mark: record.Mark(0), token: rand.Text()}
		return err
	}
	for i, item := range items {
		if item.ResponseID != "" { // needs a read of its scored response
			group.Go(func() error { return complete(i) })
		} else if err := complete(i); err != nil {
			return nil, errors.Join(err, group.Wait())
		}
	}
	err := group.Wait()
	return undecided(all, verdicts), err
}

// record completes an item to the record that is stored. A code is the reason why there is
// nothing to store.
func (l *Log) record(ctx context.Context, item feedback.Item, by string) (r feedback.Record, code feedback.Code, message string, err error) {
	r = feedback.Record{Bag: item.Bag, ResponseID: item.ResponseID, Received: time.Now().UTC(), By: by}
	index := l.Index()
	if index.Erased(feedback.HashOf(item.ID)) || item.ResponseID != "" && index.Erased(feedback.HashOf(item.ResponseID)) {
		return r, feedback.CodeErased, erasedItem, nil
	}
	if item.ResponseID == "" {
		return r, "", "", nil
	}
	scored, found, err := l.Scored(ctx, item.ResponseID)
	switch {
	case err != nil:
		return r, "", "", err
	case found && !item.HasText():
		r.Bag.Prompt = cmp.Or(r.Bag.Prompt, scored.Item.Prompt)
		scored.fill(&r.Bag)
		segments, err := r.Bag.Segments(ctx, 0, nil)
		if err != nil {
			return r, "", "", err
		}
		if len(segments) == 0 {
			return r, feedback.CodeNoText, "the scored response has no utterance to learn from; omit the item", nil
		}
	case !item.HasText() && l.scored == nil:
		return r, feedback.CodeUnknown, "scored responses are not kept: send the text of the response, or let the service keep scored responses (keep-scored)", nil
	case !item.HasText():
		return r, feedback.CodeUnknown, "no scored response of this response_id is kept, or it has expired: send the text of the response, or let the service keep scored responses for longer (keep-scored)", nil
	}
	if found && item.Response != "" && scored.Item.Response != nil && item.Response == *scored.Item.Response {
		r.Bag.Prompt = cmp.Or(r.Bag.Prompt, scored.Item.Prompt)
	}
	if found {
		r.Model, r.Violation = scored.Model, &scored.Violation
	}
	return r, "", "", nil
}

// prepare checks a candidate, and returns the write, or the verdict if there is nothing to store.
func (l *Log) prepare(c *candidate) (*write, verdict) {
	c.update(l.Index(), c.mark) // before the check: a record that is indexed in between fails the condition
	status, replaces := l.Index().Check(c.mark)
	switch status {
	case feedback.Duplicate:
		if l.cfg.Damage.Known(js.DamagedRecord{Stream: StreamFeedback, Subject: recordSubject(c.mark.ID, c.mark.Rater), Sequence: replaces}) {
			break // it replaces the damaged record
		}
		return nil, verdict{outcome: outcomeDuplicate}
	case feedback.Conflict:
		return nil, rejected(c.item, feedback.CodeConflict, "this id belongs to another response; give each response a unique id")
	case feedback.Erased:
		return nil, rejected(c.item, feedback.CodeErased, erasedItem)
	}
	body, err := c.record.AppendJSON(nil)
	if err != nil {
		return nil, rejected(c.item, feedback.CodeInvalid, err.Error())
	}
	if int64(len(body)) > l.maxRecord() {
		return nil, l.tooLarge(c, body)
	}
	// Not earlier: nothing removes a mark that is never stored.
	if c.mark, err = l.Index().Place(c.record); err != nil {
		return nil, rejected(c.item, feedback.CodeInvalid, err.Error())
	}
	msg := &nats.Msg{Subject: recordSubject(c.mark.ID, c.mark.Rater), Data: body, Header: nats.Header{}}
	setMark(msg.Header, c.mark)
	c.set(msg.Header, c.token, replaces)
	js.Seal(msg.Subject, msg.Header, body)
	return &write{msg: msg}, verdict{}
}

// maxRecord is the largest body of a record, in bytes.
func (l *Log) maxRecord() int64 { return l.nc.MaxPayload() - recordRoom }

// stored adds to the index what the server acknowledged.
func (l *Log) stored(c *candidate, sequence uint64) verdict {
	c.mark.Sequence = sequence
	l.Index().Apply(c.mark)
	return verdict{outcome: outcomeAccepted}
}

// refresh reads what is stored in the place of a candidate, so that it can be checked
// again. It returns a verdict if that is the candidate's own record, whose
// acknowledgement was lost.
func (l *Log) refresh(ctx context.Context, c *candidate) (verdict, error) {
	latest, err := l.latest(ctx, c.compared)
	switch {
	case err != nil:
		return verdict{}, err
	case latest.unrecognized: // or none, if records expire
		c.found = &latest.mark.Sequence
		return verdict{}, nil
	}
	c.found = nil
	l.Index().Apply(latest.mark)
	if strings.HasPrefix(latest.id, c.token) {
		return verdict{outcome: outcomeAccepted}, nil
	}
	return verdict{}, nil
}

// head is the metadata of a record.
type head struct {
	mark         feedback.Mark
	id           string // the Nats-Msg-Id
	unrecognized bool   // damaged, or not a record that assay wrote: only its sequence counts
	damaged      bool   // unrecognized, but written by assay, with headers that can be read
}

// latest reads the latest record of a subject, which may have a wildcard. If there is
// none, it returns an unrecognized one of sequence 0.
func (l *Log) latest(ctx context.Context, subject string) (head, error) {
	ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	msg, err := js.LastMessage(ask, l.stream, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return head{unrecognized: true}, nil
	}
	if err != nil {
		return head{}, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, js.Explain(err)))
	}
	mark, err := readMark(msg.Subject, msg.Header, msg.Sequence)
	intact := l.intact(l.stream, js.Message{Sequence: msg.Sequence, Subject: msg.Subject, Header: msg.Header, Data: msg.Data})
	written := err == nil && js.Authentic(msg.Subject, msg.Header)
	return head{mark, msg.Header.Get(jetstream.MsgIDHeader), !written || !intact, written && !intact}, nil
}

const erasedItem = "everything of this id was erased on request; a label of the response needs another id"

func rejected(item feedback.Entry, code feedback.Code, message string) verdict {
	return verdict{outcomeRejected, &feedback.Rejection{Index: item.Index, ID: item.ID, Code: code, Message: message}}
}

func (l *Log) tooLarge(c *candidate, body []byte) verdict {
	return rejected(c.item, feedback.CodeTooLarge,
		fmt.Sprintf("the item is %d bytes, above the limit of %d of the store; shorten it, or raise the maximum payload of the NATS server", len(body), l.maxRecord()))
}
