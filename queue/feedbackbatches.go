package queue

import (
	"context"
	"fmt"
	"slices"

	"assay/rewardmodel/feedback"
	"golang.org/x/sync/errgroup"
)

// appendAll stores candidates, as many at a time as a batch holds.
func (f *Feedback) appendAll(ctx context.Context, rest []*candidate, verdicts []verdict) error {
	for rounds := uint64(0); len(rest) > 0; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		chunk, left := f.chunk(rest, verdicts)
		again, err := f.appendChunk(ctx, chunk, verdicts)
		if err != nil {
			return err
		}
		rest = slices.Concat(again, left) // of one id, what is left comes after what is judged again
		switch rounds++; {
		case len(again) == 0:
			rounds = 0
		case rounds == feedbackRounds:
			return unavailable(ctx, fmt.Errorf("item %.80q: others store labels of this response and rater all the time", again[0].item.ID))
		case rounds > 1: // a replica of the stream may be behind what its leader knows
			pause(ctx, retryDelay(rounds-1, feedbackRetryBase/10, feedbackRetryMax))
		}
	}
	return nil
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

// appendChunk stores the candidates of a chunk. Of those in whose place others
// stored a label meanwhile it reads that, and returns those that may still be
// new.
func (f *Feedback) appendChunk(ctx context.Context, c chunk, verdicts []verdict) (again []*candidate, err error) {
	if len(c.writes) == 0 {
		return nil, nil
	}
	if err := f.commit(ctx, &c.commit); err != nil {
		return nil, err
	}
	for i, it := range c.candidates {
		switch w := c.writes[i]; {
		case w.err == nil:
			verdicts[it.position] = f.stored(it, w.sequence)
		case exceeds(w.err):
			verdicts[it.position] = f.tooLarge(it, w.msg.Data)
		case wrongSequence(w.err):
			again = append(again, it)
		default:
			return nil, w.err
		}
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(feedbackReads)
	for _, it := range again {
		group.Go(func() (err error) {
			verdicts[it.position], err = f.refresh(reading, it)
			return err
		})
	}
	err = group.Wait()
	return undecided(again, verdicts), err
}

// undecided are the candidates that have no verdict yet.
func undecided(candidates []*candidate, verdicts []verdict) []*candidate {
	return slices.DeleteFunc(candidates, func(c *candidate) bool { return verdicts[c.position].outcome != "" })
}
