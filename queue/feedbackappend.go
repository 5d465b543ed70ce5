package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

const (
	// feedbackReads is how many items of one request are read concurrently.
	feedbackReads = 128

	// feedbackRoom is left in a message for subject and headers.
	feedbackRoom = 2 << 10

	// feedbackRounds bounds how often in a row items are judged again because
	// others store labels of the same responses and raters at the same time.
	feedbackRounds = 50
)

// The outcomes of an item, for the metrics.
const (
	itemAccepted  = "accepted"
	itemDuplicate = "duplicate"
	itemRejected  = "rejected"
)

// verdict is what became of one item. Why is set when it is rejected.
type verdict struct {
	outcome string
	why     *feedback.Rejection
}

// Append stores the items of a batch that are new or corrections, and returns
// when the server has acknowledged all of them: with an embedded server of the
// default settings, when all are on disk. By names who sent them. Items of one
// id are taken in their order. Errors wrap feedback.ErrStoreFull or
// feedback.ErrUnavailable, or are that of ctx: then some items may be stored,
// or may yet be, and sending the same batch again counts those as duplicates.
//
// Items are stored in atomic batches, also with those of other calls, so that
// an fsync covers as many as possible. An item in whose place another process
// stored a label meanwhile is judged again. An item counts as accepted in at
// most one receipt.
//
// One race is left: of two texts under one id that different raters send to two
// processes at the same moment, both are stored, and the later one counts.
func (f *Feedback) Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error) {
	if err := f.await(ctx, 0); err != nil {
		return feedback.Receipt{}, err
	}
	verdicts := make([]verdict, len(batch.Items))
	candidates, err := f.candidates(ctx, batch.Items, by, verdicts)
	if err == nil {
		err = f.appendAll(ctx, candidates, verdicts)
	}
	receipt := f.receipt(batch, verdicts)
	if err != nil {
		return feedback.Receipt{}, err
	}
	return receipt, nil
}

// candidate is an item that may be stored.
type candidate struct {
	position int // in the batch
	item     feedback.Entry
	record   feedback.Record
	mark     feedback.Mark
	token    string  // tells our own message from an equal one of another process
	found    *uint64 // what is stored, where the index does not know it
}

// candidates completes the items, and gives those their verdict that cannot be
// stored.
func (f *Feedback) candidates(ctx context.Context, items []feedback.Entry, by string, verdicts []verdict) ([]*candidate, error) {
	all := make([]*candidate, len(items))
	group, completing := errgroup.WithContext(ctx)
	group.SetLimit(feedbackReads)
	complete := func(i int) error {
		record, code, message, err := f.record(completing, items[i].Item, by)
		if code != "" {
			verdicts[i] = rejected(items[i], code, message)
		}
		all[i] = &candidate{position: i, item: items[i], record: record, mark: record.Mark(0), token: rand.Text()}
		return err
	}
	for i, item := range items {
		if item.ResponseID != "" { // its scored response is read
			group.Go(func() error { return complete(i) })
		} else if err := complete(i); err != nil {
			return nil, errors.Join(err, group.Wait())
		}
	}
	err := group.Wait()
	return undecided(all, verdicts), err
}

// receipt counts what became of a batch, of which not all needs to be done.
func (f *Feedback) receipt(batch feedback.Batch, verdicts []verdict) feedback.Receipt {
	receipt := feedback.Receipt{Rejected: append([]feedback.Rejection{}, batch.Rejected...)}
	for _, v := range verdicts {
		switch v.outcome {
		case itemAccepted:
			receipt.Accepted++
		case itemDuplicate:
			receipt.Duplicates++
		case itemRejected:
			receipt.Rejected = append(receipt.Rejected, *v.why)
		}
	}
	slices.SortFunc(receipt.Rejected, func(a, b feedback.Rejection) int { return cmp.Compare(a.Index, b.Index) })
	f.metrics.feedback.WithLabelValues(itemAccepted).Add(float64(receipt.Accepted))
	f.metrics.feedback.WithLabelValues(itemDuplicate).Add(float64(receipt.Duplicates))
	f.metrics.feedback.WithLabelValues(itemRejected).Add(float64(len(receipt.Rejected)))
	return receipt
}

// prepare judges a candidate and returns what to store, or why there is nothing.
func (f *Feedback) prepare(c *candidate) (*write, verdict) {
	judgement, replaces := f.Index().Judge(c.mark)
	switch judgement {
	case feedback.Duplicate:
		return nil, verdict{outcome: itemDuplicate}
	case feedback.Conflict:
		return nil, rejected(c.item, feedback.CodeConflict, "this id stands for another response already; give each response an id of its own")
	case feedback.Erased:
		return nil, rejected(c.item, feedback.CodeErased, erasedItem)
	}
	if c.found != nil {
		replaces = *c.found
	}
	body, err := c.record.AppendJSON(nil)
	if err != nil {
		return nil, rejected(c.item, feedback.CodeInvalid, err.Error())
	}
	if int64(len(body)) > f.itemLimit() {
		return nil, f.tooLarge(c, body)
	}
	c.mark = f.Index().Place(c.record) // not before: nothing else uncounts what is never stored
	msg := &nats.Msg{Subject: recordSubject(c.mark.ID, c.mark.Rater), Data: body, Header: nats.Header{}}
	setMark(msg.Header, c.mark)
	sign(msg.Subject, msg.Header)
	last := strconv.FormatUint(replaces, 10)
	msg.Header.Set(jetstream.ExpectedStreamHeader, StreamFeedback)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, last)
	msg.Header.Set(jetstream.MsgIDHeader, c.token+"."+last)
	return &write{msg: msg}, verdict{}
}

// itemLimit is the largest body of a record, in bytes.
func (f *Feedback) itemLimit() int64 { return f.nc.MaxPayload() - feedbackRoom }

// stored takes in what the server acknowledged.
func (f *Feedback) stored(c *candidate, sequence uint64) verdict {
	c.mark.Sequence = sequence
	f.Index().Apply(c.mark)
	return verdict{outcome: itemAccepted}
}

// refresh reads what is stored in the place of a candidate, so that it can be
// judged again. It has its verdict if that is what we stored ourselves, and the
// acknowledgement was lost.
func (f *Feedback) refresh(ctx context.Context, c *candidate) (verdict, error) {
	latest, err := f.latest(ctx, recordSubject(c.mark.ID, c.mark.Rater))
	switch {
	case err != nil:
		return verdict{}, err
	case latest.foreign: // or none, when records expire
		c.found = &latest.mark.Sequence
		return verdict{}, nil
	}
	c.found = nil
	f.Index().Apply(latest.mark)
	if strings.HasPrefix(latest.id, c.token) {
		return verdict{outcome: itemAccepted}, nil
	}
	return verdict{}, nil
}

// head is what a message says about itself.
type head struct {
	mark    feedback.Mark
	id      string // the Nats-Msg-Id
	foreign bool   // not a record that assay wrote: only its sequence counts
}

// latest reads the latest record of a subject. No message is a foreign one of
// sequence 0.
func (f *Feedback) latest(ctx context.Context, subject string) (head, error) {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := lastMessage(ask, f.stream, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return head{foreign: true}, nil
	}
	if err != nil {
		return head{}, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, explain(err)))
	}
	mark, err := readMark(subject, msg.Header, msg.Sequence)
	foreign := err != nil || !authentic(subject, msg.Header)
	return head{mark, msg.Header.Get(jetstream.MsgIDHeader), foreign}, nil
}

// record completes an item to what is stored of it. A code says why there is
// nothing to store.
func (f *Feedback) record(ctx context.Context, item feedback.Item, by string) (r feedback.Record, code feedback.Code, message string, err error) {
	r = feedback.Record{Bag: item.Bag, ResponseID: item.ResponseID, Received: time.Now().UTC(), By: by}
	index := f.Index()
	if index.Erased(feedback.HashOf(item.ID)) || item.ResponseID != "" && index.Erased(feedback.HashOf(item.ResponseID)) {
		return r, feedback.CodeErased, erasedItem, nil
	}
	if item.ResponseID == "" {
		return r, "", "", nil
	}
	kept, found, err := f.Kept(ctx, item.ResponseID)
	switch {
	case err != nil:
		return r, "", "", err
	case found && !item.HasText():
		r.Bag.Prompt = cmp.Or(r.Bag.Prompt, kept.Item.Prompt)
		kept.fill(&r.Bag)
		segments, err := r.Bag.Segments(ctx, 0, nil)
		if err != nil {
			return r, "", "", err
		}
		if len(segments) == 0 {
			return r, feedback.CodeUnlabelled, "the response that was scored has no utterance to learn from; leave the item out", nil
		}
	case !item.HasText() && f.kept == nil:
		return r, feedback.CodeUnknown, "scored responses are not kept: send the text of the response, or start the service with --keep-scored", nil
	case !item.HasText():
		return r, feedback.CodeUnknown, "no scored response of this response_id is kept (any more): send the text of the response, or keep them for longer with --keep-scored", nil
	}
	if found {
		r.Model, r.Violation = kept.Model, &kept.Violation
	}
	return r, "", "", nil
}

const erasedItem = "everything of this id was erased on request; a label of the response needs another id"

func rejected(item feedback.Entry, code feedback.Code, message string) verdict {
	return verdict{itemRejected, &feedback.Rejection{Index: item.Index, ID: item.ID, Code: code, Message: message}}
}

func (f *Feedback) tooLarge(c *candidate, body []byte) verdict {
	return rejected(c.item, feedback.CodeTooLarge,
		fmt.Sprintf("the item is %d bytes, more than the %d that the store takes; shorten it, or raise --nats-max-payload", len(body), f.itemLimit()))
}
