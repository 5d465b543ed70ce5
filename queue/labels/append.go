package labels

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"assay/queue/internal/js"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"golang.org/x/sync/errgroup"
)

// maxRounds limits how often an item is checked again because others store labels of
// the same response and rater at the same time.
const maxRounds = 50

// The outcomes of an item, for the metrics.
const (
	outcomeAccepted  = "accepted"
	outcomeDuplicate = "duplicate"
	outcomeRejected  = "rejected"
	outcomeFailed    = "failed" // the server did not acknowledge it in time
)

// labelValues are the values of the labels of Config.Items.
func labelValues() (all [][]string) {
	for _, outcome := range []string{outcomeAccepted, outcomeDuplicate, outcomeRejected, outcomeFailed} {
		for _, label := range []bag.Label{"", bag.Compliant, bag.Violation} {
			all = append(all, []string{outcome, string(label)})
		}
	}
	return all
}

// Append stores the items of a batch that are new or corrections, and returns when
// the server has acknowledged all of them: with an embedded server of the default
// settings, when all are on disk. by is who sent them. Items of one id are processed
// in order. Errors wrap feedback.ErrStoreFull or feedback.ErrUnavailable, or are that
// of ctx: then some items may be stored, now or later, and sending the same batch
// again counts those as duplicates.
//
// Items are stored in atomic batches, together with those of concurrent calls, so
// that an fsync covers as many as possible. If another process stores a label of the
// same response and rater in the meantime, the item is checked again. At most one
// receipt counts an item as accepted.
func (l *Log) Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error) {
	verdicts := make([]verdict, len(batch.Items))
	err := l.await(ctx, 0)
	var candidates []*candidate
	if err == nil {
		candidates, err = l.candidates(ctx, batch.Items, by, verdicts)
	}
	if err == nil {
		err = l.appendAll(ctx, candidates, verdicts)
	}
	receipt := l.receipt(batch, candidates, verdicts)
	if err != nil {
		return feedback.Receipt{}, err
	}
	return receipt, nil
}

// verdict is the outcome of one item. reason is set when it is rejected.
type verdict struct {
	outcome string
	reason  *feedback.Rejection
}

// receipt counts the outcomes of a batch, some of which may be missing after an
// error, and calls the hook of OnAppend with the completed items.
func (l *Log) receipt(batch feedback.Batch, candidates []*candidate, verdicts []verdict) feedback.Receipt {
	receipt := feedback.Receipt{Rejected: append([]feedback.Rejection{}, batch.Rejected...)}
	completed := slices.Clone(batch.Items)
	for _, c := range candidates {
		completed[c.position].Bag = c.record.Bag
	}
	var accepted []feedback.Entry
	l.cfg.Items.WithLabelValues(outcomeRejected, "").Add(float64(len(batch.Rejected)))
	for i, v := range verdicts {
		l.cfg.Items.WithLabelValues(cmp.Or(v.outcome, outcomeFailed), string(batch.Items[i].Label)).Inc()
		switch v.outcome {
		case outcomeAccepted:
			accepted = append(accepted, completed[i])
		case outcomeDuplicate:
			receipt.Duplicates++
		case outcomeRejected:
			receipt.Rejected = append(receipt.Rejected, *v.reason)
		}
	}
	receipt.Accepted = len(accepted)
	slices.SortFunc(receipt.Rejected, func(a, b feedback.Rejection) int { return cmp.Compare(a.Index, b.Index) })
	if hook := l.appended.Load(); hook != nil && len(accepted) > 0 {
		(*hook)(accepted)
	}
	return receipt
}

// appendAll stores candidates, as many at a time as a batch holds.
func (l *Log) appendAll(ctx context.Context, rest []*candidate, verdicts []verdict) error {
	delays := js.Backoff{Base: backoff().Base / 10, Max: backoff().Max}
	for rounds := uint64(0); len(rest) > 0; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		chunk, left := l.chunk(rest, verdicts)
		again, err := l.appendChunk(ctx, chunk, verdicts)
		if err != nil {
			return err
		}
		rest = slices.Concat(again, left) // of one id, deferred items come after retried ones
		switch rounds++; {
		case len(again) == 0:
			rounds = 0
		case rounds == maxRounds:
			return unavailable(ctx, fmt.Errorf("item %.80q: other clients keep storing labels of this response and rater", again[0].item.ID))
		case rounds > 1: // a replica of the stream may be behind its leader
			js.Sleep(ctx, delays.Delay(rounds-1))
		}
	}
	return nil
}

// chunk is a part of a request that fits into a batch.
type chunk struct {
	candidates []*candidate
	commit
}

// chunk checks candidates in order, sets the verdict of those that need not be
// stored, and takes as many others as a batch holds. A candidate that depends on one
// that it takes is deferred to the next chunk, when the index contains the latter: a
// second record of the same response and rater, another text under the same id, or a
// second record of an id that has none.
func (l *Log) chunk(from []*candidate, verdicts []verdict) (c chunk, left []*candidate) {
	taken := map[[2]feedback.Hash]bool{}
	texts := map[feedback.Hash]feedback.Hash{}
	waiting := map[feedback.Hash]bool{}
	for i, it := range from {
		key := [2]feedback.Hash{it.mark.ID, it.mark.Rater}
		if text, known := texts[it.mark.ID]; waiting[it.mark.ID] || taken[key] || known && text != it.mark.Text {
			waiting[it.mark.ID] = true
			left = append(left, it)
			continue
		}
		w, verdict := l.prepare(it)
		if w == nil {
			verdicts[it.position] = verdict
			continue
		}
		if len(c.writes) > 0 && !c.fits(1, w.msg.Size()) {
			return c, append(left, from[i:]...)
		}
		taken[key], texts[it.mark.ID] = true, it.mark.Text
		waiting[it.mark.ID] = it.first
		c.candidates = append(c.candidates, it)
		c.add(w, it.mark.ID, it.first)
	}
	return c, left
}

// appendChunk stores the candidates of a chunk. Where another process stored a label
// in the meantime, it reads that label, and returns the candidates that may still be
// new.
func (l *Log) appendChunk(ctx context.Context, c chunk, verdicts []verdict) (again []*candidate, err error) {
	if len(c.writes) == 0 {
		return nil, nil
	}
	if err := l.commit(ctx, &c.commit); err != nil {
		return nil, err
	}
	for i, it := range c.candidates {
		switch w := c.writes[i]; {
		case w.err == nil:
			verdicts[it.position] = l.stored(it, w.sequence)
		case js.TooLarge(w.err):
			verdicts[it.position] = l.tooLarge(it, w.msg.Data)
		case js.WrongSequence(w.err):
			again = append(again, it)
		default:
			return nil, w.err
		}
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for _, it := range again {
		group.Go(func() (err error) {
			verdicts[it.position], err = l.refresh(reading, it)
			return err
		})
	}
	err = group.Wait()
	return undecided(again, verdicts), err
}

// undecided returns the candidates that have no verdict yet.
func undecided(candidates []*candidate, verdicts []verdict) []*candidate {
	return slices.DeleteFunc(candidates, func(c *candidate) bool { return verdicts[c.position].outcome != "" })
}
