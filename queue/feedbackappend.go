package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ai/assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

const (
	// feedbackLanes is how many items of one batch are stored at once.
	feedbackLanes = 128

	// feedbackRoom is left in a message for subject and headers.
	feedbackRoom = 2 << 10

	// feedbackRounds bounds how often an item is judged again because others
	// store labels of the same response and rater at the same time.
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
// when the server has acknowledged all of them. By names who sent them. Items of
// one id are taken in their order. Errors wrap feedback.ErrStoreFull or
// feedback.ErrUnavailable, or are that of ctx: then some items may be stored,
// and sending the same batch again counts those as duplicates.
//
// One race is left: of two texts under one id that different raters send to two
// processes at the same moment, both are stored, and the later one counts.
func (f *Feedback) Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error) {
	if err := f.await(ctx, 0); err != nil {
		return feedback.Receipt{}, err
	}
	verdicts := make([]verdict, len(batch.Items))
	group, storing := errgroup.WithContext(ctx)
	for _, lane := range lanes(batch.Items) {
		group.Go(func() (err error) {
			for _, i := range lane {
				if verdicts[i], err = f.append(storing, batch.Items[i], by); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	receipt := f.receipt(batch, verdicts)
	if err != nil {
		return feedback.Receipt{}, err
	}
	return receipt, nil
}

// lanes divides the items so that those of one id are in one lane, in order.
func lanes(items []feedback.Entry) [][]int {
	lanes := make([][]int, min(len(items), feedbackLanes))
	for i, item := range items {
		hash := feedback.HashOf(item.ID)
		lane := binary.BigEndian.Uint64(hash[:]) % uint64(len(lanes))
		lanes[lane] = append(lanes[lane], i)
	}
	return lanes
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
	f.items.WithLabelValues(itemAccepted).Add(float64(receipt.Accepted))
	f.items.WithLabelValues(itemDuplicate).Add(float64(receipt.Duplicates))
	f.items.WithLabelValues(itemRejected).Add(float64(len(receipt.Rejected)))
	return receipt
}

// append stores one item, if it is new or a correction.
func (f *Feedback) append(ctx context.Context, item feedback.Entry, by string) (verdict, error) {
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	record, code, message, err := f.record(ctx, item.Item, by)
	if err != nil {
		return verdict{}, err
	}
	if code != "" {
		return rejected(item, code, message), nil
	}
	body, err := record.AppendJSON(nil)
	if err != nil {
		return rejected(item, feedback.CodeInvalid, err.Error()), nil
	}
	limit := f.nc.MaxPayload() - feedbackRoom
	if int64(len(body)) > limit {
		return rejected(item, feedback.CodeTooLarge, tooLargeItem(len(body), limit)), nil
	}
	return f.store(ctx, item, record, body)
}

// store publishes a record under the condition that nobody else stored one of
// the same response and rater since it was judged.
func (f *Feedback) store(ctx context.Context, item feedback.Entry, record feedback.Record, body []byte) (verdict, error) {
	mark := record.Mark(0)
	token := rand.Text() // tells our own message from an equal one of another process
	var found *uint64    // what is stored, where the index does not know it
	for round := uint64(1); round <= feedbackRounds; round++ {
		judgement, replaces := f.Index().Judge(mark)
		switch judgement {
		case feedback.Duplicate:
			return verdict{outcome: itemDuplicate}, nil
		case feedback.Conflict:
			return rejected(item, feedback.CodeConflict, "this id stands for another response already; give each response an id of its own"), nil
		case feedback.Erased:
			return rejected(item, feedback.CodeErased, erasedItem), nil
		}
		if found != nil {
			replaces, found = *found, nil
		}
		msg := &nats.Msg{Subject: recordSubject(mark.ID, mark.Rater), Data: body, Header: nats.Header{}}
		setMark(msg.Header, mark)
		sign(msg.Subject, msg.Header)
		ack, err := f.put(ctx, msg, jetstream.WithExpectLastSequencePerSubject(replaces),
			jetstream.WithMsgID(token+"."+strconv.FormatUint(replaces, 10)))
		switch {
		case err == nil:
			mark.Sequence = ack.Sequence
			f.Index().Apply(mark)
			return verdict{outcome: itemAccepted}, nil
		case exceeds(err):
			return rejected(item, feedback.CodeTooLarge, tooLargeItem(len(body), f.nc.MaxPayload()-feedbackRoom)), nil
		case !conflicts(err):
			return verdict{}, err
		}
		latest, err := f.latest(ctx, msg.Subject)
		switch {
		case err != nil:
			return verdict{}, err
		case latest.foreign: // or none, when records expire
			found = &latest.mark.Sequence
		default:
			f.Index().Apply(latest.mark)
			if strings.HasPrefix(latest.id, token) { // stored, and the acknowledgement lost
				return verdict{outcome: itemAccepted}, nil
			}
		}
		if round > 1 { // a replica of the stream may be behind what its leader knows
			pause(ctx, retryDelay(round-1, feedbackRetryBase/10, feedbackRetryMax))
		}
	}
	return verdict{}, unavailable(ctx, fmt.Errorf("item %.80q: others store labels of this response and rater all the time", item.ID))
}

// head is what a message says about itself.
type head struct {
	mark    feedback.Mark
	id      string // the Nats-Msg-Id
	foreign bool   // it is no record, and only its sequence counts
}

// latest reads the latest record of a subject. No message is a foreign one of
// sequence 0.
func (f *Feedback) latest(ctx context.Context, subject string) (head, error) {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := f.stream.GetLastMsgForSubject(ask, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return head{foreign: true}, nil
	}
	if err != nil {
		return head{}, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, explain(err)))
	}
	mark, err := readMark(msg.Subject, msg.Header, msg.Sequence)
	return head{mark, msg.Header.Get(jetstream.MsgIDHeader), err != nil}, nil
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
		if len(r.Bag.Segments(0, nil)) == 0 {
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

func tooLargeItem(size int, limit int64) string {
	return fmt.Sprintf("the item is %d bytes, more than the %d that the store takes; shorten it, or raise --nats-max-payload", size, limit)
}
