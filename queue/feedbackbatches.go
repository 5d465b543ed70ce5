package queue

import (
	"context"
	"errors"
	"slices"

	"assay/rewardmodel/feedback"
	"golang.org/x/sync/errgroup"
)

// batchRounds bounds how often candidates are stored as a batch again after the
// server refused one that they were in.
const batchRounds = 3

// appendBatches stores candidates in atomic batches. It returns those that are
// to be stored one by one, since the server refused a batch for another reason
// than a conflict, or for conflicts too often.
func (f *Feedback) appendBatches(ctx context.Context, rest []*candidate, verdicts []verdict) ([]*candidate, error) {
	for refusals := 0; len(rest) > 0 && refusals < batchRounds; {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		chunk, left := f.chunk(rest, verdicts)
		refused, why, err := f.appendChunk(ctx, chunk, verdicts)
		if err != nil {
			return nil, err
		}
		rest = slices.Concat(refused, left) // of one id, what is left comes after what is refused
		switch {
		case why == nil:
		case conflicts(why):
			refusals++
		default:
			return rest, nil
		}
	}
	return rest, nil
}

// chunk is a part of a request that fits into a batch.
type chunk struct {
	candidates []*candidate
	commit
}

// chunk judges candidates in their order, gives those their verdict that need
// not be stored, and takes as many others as a batch holds. What depends on one
// that it takes is left for the next, when the index knows that one: a second
// record of the same response and rater, or another text under the same id.
func (f *Feedback) chunk(from []*candidate, verdicts []verdict) (c chunk, left []*candidate) {
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
		w, verdict := f.prepare(it)
		if w == nil {
			verdicts[it.position] = verdict
			continue
		}
		if len(c.writes) > 0 && !c.fits(1, w.msg.Size()) {
			return c, append(left, from[i:]...)
		}
		taken[key], texts[it.mark.ID] = true, it.mark.Text
		c.candidates = append(c.candidates, it)
		c.writes = append(c.writes, w)
		c.bytes += w.msg.Size()
	}
	return c, left
}

// appendChunk stores the candidates of a chunk. Of those that the server refused
// it reads what is stored in their place, and returns those that may still be
// new, and why they were refused.
func (f *Feedback) appendChunk(ctx context.Context, c chunk, verdicts []verdict) (refused []*candidate, why, err error) {
	if len(c.writes) == 0 {
		return nil, nil, nil
	}
	if err := f.commit(ctx, &c.commit); err != nil {
		return nil, nil, err
	}
	for i, it := range c.candidates {
		switch w := c.writes[i]; {
		case w.err == nil:
			verdicts[it.position] = f.stored(it, w.sequence)
		case errors.Is(w.err, feedback.ErrStoreFull), errors.Is(w.err, feedback.ErrUnavailable), !refusedBatch(w.err):
			return nil, nil, w.err
		default:
			refused, why = append(refused, it), w.err
		}
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(feedbackLanes)
	for _, it := range refused {
		group.Go(func() (err error) {
			verdicts[it.position], err = f.refresh(reading, it)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return undecided(refused, verdicts), why, nil
}

// undecided are the candidates that have no verdict yet.
func undecided(candidates []*candidate, verdicts []verdict) []*candidate {
	return slices.DeleteFunc(candidates, func(c *candidate) bool { return verdicts[c.position].outcome != "" })
}
