package commands

import (
	"context"
	"errors"
	"iter"

	"golang.org/x/sync/errgroup"

	"assay/rewardmodel"
	"assay/sidecar/cli"
)

// scorer scores requests: the model in this process, or a service.
type scorer interface {
	Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.ScoreResponse, error)
}

// pipeline scores a sequence of items in concurrent chunks, so that one is
// tokenized while the model works on another, and writes the results in order.
// Its memory is bounded, however long the sequence.
type pipeline struct {
	scorer   scorer
	options  rewardmodel.Options
	idle     func() bool // reports that reading the next item may block
	skip     func(error) // handles an invalid item; nil: it ends the run
	out      cli.LineWriter
	progress *cli.Progress
}

// The limits of the items in a pipeline.
const (
	chunkItems = 256
	chunkBytes = 512 << 10
	maxChunks  = 4
)

// chunk is a sequence of consecutive items in the pipeline.
type chunk struct {
	name    string // of the file
	lines   []int
	items   []rewardmodel.Item
	bytes   int
	failed  error // the error that ended the input after these items
	results []rewardmodel.Result
	err     error
	done    chan struct{} // closed when results or err are set
}

func (p *pipeline) run(ctx context.Context, items iter.Seq2[cli.Record[rewardmodel.Item], error], name string) error {
	group, ctx := errgroup.WithContext(ctx)
	chunks := make(chan *chunk, maxChunks)
	group.Go(func() error {
		defer close(chunks)
		for c := range p.chunks(items, name) {
			select {
			case chunks <- c: // blocks until the writer keeps up, which bounds the memory
			case <-ctx.Done():
				return nil // the writer failed
			}
			group.Go(func() error {
				defer close(c.done)
				c.results, c.err = p.score(ctx, c.name, c.lines, c.items)
				return nil // the writer reports it, after the results before it
			})
		}
		return nil
	})
	group.Go(func() error { return p.write(chunks) })
	return group.Wait()
}

// chunks groups the items. A chunk ends early when the input is idle, so that a
// stream gets its results immediately.
func (p *pipeline) chunks(items iter.Seq2[cli.Record[rewardmodel.Item], error], name string) iter.Seq[*chunk] {
	return func(yield func(*chunk) bool) {
		c := &chunk{name: name, done: make(chan struct{})}
		for item, err := range items {
			if err != nil {
				c.failed = err
				break
			}
			c.lines = append(c.lines, item.Line)
			c.items = append(c.items, item.Value)
			c.bytes += item.Bytes
			if len(c.items) < chunkItems && c.bytes < chunkBytes && !p.idle() {
				continue
			}
			if !yield(c) {
				return
			}
			c = &chunk{name: name, done: make(chan struct{})}
		}
		if len(c.items) > 0 || c.failed != nil {
			yield(c)
		}
	}
}

// write writes the results of the chunks in order.
func (p *pipeline) write(chunks <-chan *chunk) error {
	for c := range chunks {
		<-c.done
		for _, result := range c.results {
			if err := p.out.Write(result); err != nil {
				return err
			}
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
		if c.err != nil {
			return c.err
		}
		if c.failed != nil {
			return c.failed
		}
		p.progress.Add(len(c.items), c.bytes)
	}
	return nil
}

// score scores the items of a chunk. It retries while the queue is full, and
// splits a rejected request in half to find the invalid item, or to fit the size
// limits. With an error it returns the results of the items before it.
func (p *pipeline) score(ctx context.Context, name string, lines []int, items []rewardmodel.Item) ([]rewardmodel.Result, error) {
	if len(items) == 0 {
		return nil, nil
	}
	for {
		answer, err := p.scorer.Score(ctx, rewardmodel.Request{Responses: items, Options: p.options})
		var full *rewardmodel.OverloadedError
		var input *rewardmodel.InputError
		switch {
		case err == nil:
			return answer.Results, nil
		case errors.As(err, &full):
			if err := cli.Wait(ctx, full.RetryAfter); err != nil {
				return nil, err
			}
		case !errors.As(err, &input):
			return nil, err
		case len(items) > 1:
			half := len(items) / 2
			first, err := p.score(ctx, name, lines[:half], items[:half])
			if err != nil {
				return first, err
			}
			second, err := p.score(ctx, name, lines[half:], items[half:])
			return append(first, second...), err
		default:
			err = &cli.LineError{Name: name, Line: lines[0], Err: err}
			if p.skip == nil {
				return nil, err
			}
			p.skip(err)
			return nil, nil
		}
	}
}
