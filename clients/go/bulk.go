package assay

import (
	"context"
	"iter"
	"slices"
	"sync"
)

// ScoreAll scores any number of items and returns their results in the same
// order. It splits them into requests as set by WithChunk and WithConcurrency.
// Either all items are scored or it returns an error, whose Item is the index of
// the offending item if there is one. If a new model is promoted in the meantime,
// Result.Model identifies the model of each result.
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

// ScoreSeq is like ScoreAll, but reads items lazily and yields results in order as
// they arrive, so that neither needs to fit into memory. An error ends the
// sequence. Leaving the loop cancels the requests in flight.
func (c *Client) ScoreSeq(ctx context.Context, items iter.Seq[Item], options Options) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		settings, err := c.encodeSettings(options)
		if err != nil {
			yield(Result{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		// The queue holds twice as many chunks as run, so that a slow chunk does not stall the others.
		b := bulk{client: c, settings: settings, options: options, queue: make(chan task, 2*c.concurrency)}
		defer b.group.Wait()
		defer close(b.queue)
		defer cancel()
		b.run(ctx, items, yield)
	}
}

// bulk is one call of ScoreSeq.
type bulk struct {
	client   *Client
	settings []byte
	options  Options
	queue    chan task
	workers  int
	pending  []<-chan outcome // in the order of the chunks
	group    sync.WaitGroup
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
			if len(b.pending) == cap(b.queue) && !b.next(yield) {
				return
			}
			continue
		}
		for len(b.pending) > 0 {
			if !b.next(yield) {
				return
			}
		}
		yield(Result{}, err)
		return
	}
	for len(b.pending) > 0 && b.next(yield) {
	}
}

// start does not block: the capacity of the queue bounds the pending chunks.
func (b *bulk) start(ctx context.Context, k chunk) {
	done := make(chan outcome, 1)
	b.pending = append(b.pending, done)
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

// score splits a chunk that is too large for the service into halves.
func (b *bulk) score(ctx context.Context, k chunk) ([]Result, error) {
	response, err := b.client.scoreOnce(ctx, k, b.settings, b.options)
	if !tooLarge(err, k.first, len(k.items)) || len(k.items) == 1 {
		return response.Results, err
	}
	middle := len(k.items) / 2
	left, err := b.score(ctx, chunk{k.first, k.items[:middle], k.encoded[:middle]})
	if err != nil {
		return nil, err
	}
	right, err := b.score(ctx, chunk{k.first + middle, k.items[middle:], k.encoded[middle:]})
	return append(left, right...), err
}

// next yields the results of the oldest chunk. It returns false to end the sequence.
func (b *bulk) next(yield func(Result, error) bool) bool {
	o := <-b.pending[0]
	b.pending = b.pending[1:]
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

// chunks splits items into requests. An error ends the sequence.
func (c *Client) chunks(items iter.Seq[Item]) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		var pending chunk
		size, index := 0, 0
		for it := range items {
			text, err := encodeItem(it, index)
			if len(pending.items) > 0 && (err != nil || len(pending.items) == c.chunkItems || size+len(text) > c.chunkBytes) {
				if !yield(pending, nil) {
					return
				}
				pending, size = chunk{first: index}, 0
			}
			if err != nil {
				yield(chunk{}, err)
				return
			}
			pending.items, pending.encoded = append(pending.items, it), append(pending.encoded, text)
			size += len(text) + 1
			index++
		}
		if len(pending.items) > 0 {
			yield(pending, nil)
		}
	}
}
