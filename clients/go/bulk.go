package assay

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
)

// ScoreAll scores any number of items and returns their results in the order
// of the items. They go out in requests of WithChunk, of which WithConcurrency
// are under way at once. All of them are scored, or there is an error, whose
// Item is the offending one when it is one item's fault. Where a new model was
// promoted meanwhile, Result.Model tells which results are whose.
func (c *Client) ScoreAll(ctx context.Context, items []Item, options Options) ([]Result, error) {
	results := make([]Result, 0, len(items))
	for r, err := range c.ScoreSeq(ctx, slices.Values(items), options) {
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// ScoreSeq is ScoreAll for more items than memory holds: it reads items only as
// far as it needs them and yields results as they come, in order. An error is
// the last that it yields. Breaking off ends what is under way.
func (c *Client) ScoreSeq(ctx context.Context, items iter.Seq[Item], options Options) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		frame, err := c.frame(options)
		if err != nil {
			yield(Result{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		// Twice as many chunks wait as are under way, so that a slow one does not idle the others.
		b := bulk{client: c, frame: frame, options: options, queue: make(chan task, 2*c.concurrency)}
		defer b.group.Wait()
		defer close(b.queue)
		defer cancel()
		b.run(ctx, items, yield)
	}
}

// bulk is one call of ScoreSeq.
type bulk struct {
	client  *Client
	frame   []byte
	options Options
	queue   chan task
	workers int
	waiting []<-chan outcome // in the order of the chunks
	group   sync.WaitGroup
}

type task struct {
	chunk chunk
	done  chan<- outcome
}

type outcome struct {
	results []Result
	err     error
}

func (b *bulk) run(ctx context.Context, items iter.Seq[Item], yield func(Result, error) bool) {
	for k, err := range b.client.chunks(items) {
		if err == nil {
			b.start(ctx, k)
			if len(b.waiting) == cap(b.queue) && !b.next(yield) {
				return
			}
			continue
		}
		for len(b.waiting) > 0 {
			if !b.next(yield) {
				return
			}
		}
		yield(Result{}, err)
		return
	}
	for len(b.waiting) > 0 && b.next(yield) {
	}
}

// start never waits: the queue has room for all that wait.
func (b *bulk) start(ctx context.Context, k chunk) {
	done := make(chan outcome, 1)
	b.waiting = append(b.waiting, done)
	b.queue <- task{k, done}
	if b.workers == b.client.concurrency {
		return
	}
	b.workers++
	b.group.Go(func() {
		for t := range b.queue {
			results, err := b.score(ctx, t.chunk)
			t.done <- outcome{results, err}
		}
	})
}

// score halves a chunk that is too large for the service.
func (b *bulk) score(ctx context.Context, k chunk) ([]Result, error) {
	answer, err := b.client.scoreOnce(ctx, k, b.frame, b.options)
	var refused *APIError
	if len(k.items) == 1 && errors.As(err, &refused) && refused.Item < 0 && refused.Status == http.StatusRequestEntityTooLarge {
		refused.Item = k.first
	}
	if len(k.items) < 2 || !errors.As(err, &refused) || refused.Status != http.StatusRequestEntityTooLarge {
		return answer.Results, err
	}
	middle := len(k.items) / 2
	left, err := b.score(ctx, chunk{k.first, k.items[:middle], k.encoded[:middle]})
	if err != nil {
		return nil, err
	}
	right, err := b.score(ctx, chunk{k.first + middle, k.items[middle:], k.encoded[middle:]})
	return append(left, right...), err
}

// next yields the results of the oldest chunk; false: it was the last.
func (b *bulk) next(yield func(Result, error) bool) bool {
	o := <-b.waiting[0]
	b.waiting = b.waiting[1:]
	if o.err != nil {
		yield(Result{}, o.err)
		return false
	}
	for _, r := range o.results {
		if !yield(r, nil) {
			return false
		}
	}
	return true
}

// chunks cuts items into requests. An error is the last that it yields.
func (c *Client) chunks(items iter.Seq[Item]) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		var held chunk
		size, place := 0, 0
		for it := range items {
			text, err := encodeItem(it, place)
			if len(held.items) > 0 && (err != nil || len(held.items) == c.chunkItems || size+len(text) > c.chunkBytes) {
				if !yield(held, nil) {
					return
				}
				held, size = chunk{first: place}, 0
			}
			if err != nil {
				yield(chunk{}, err)
				return
			}
			held.items, held.encoded = append(held.items, it), append(held.encoded, text)
			size += len(text) + 1
			place++
		}
		if len(held.items) > 0 {
			yield(held, nil)
		}
	}
}
