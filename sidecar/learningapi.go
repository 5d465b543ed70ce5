package main

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"assay/api"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// desk is what HTTP and NATS ask about feedback, models and trainings, from the first moment on.
type desk struct {
	learning atomic.Pointer[learning]
}

// connect gives the control plane the parts that it asks.
func (d *desk) connect(l *learning) { d.learning.Store(l) }

func (d *desk) ready() (*learning, error) {
	if l := d.learning.Load(); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%w: the streams are being opened", api.ErrNotReady)
}

// ask calls f once the parts are there.
func ask[T any](d *desk, f func(*learning) (T, error)) (T, error) {
	l, err := d.ready()
	if err != nil {
		var none T
		return none, err
	}
	return f(l)
}

// Append implements api.Feedback and queue's.
func (d *desk) Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error) {
	return ask(d, func(l *learning) (feedback.Receipt, error) {
		receipt, err := l.labels.Append(ctx, batch, by)
		if err == nil && receipt.Accepted > 0 && l.monitor != nil {
			l.monitor.told(batch.Items)
		}
		return receipt, err
	})
}

// Erase implements api.Feedback.
func (d *desk) Erase(ctx context.Context, id, by string) (int, error) {
	return ask(d, func(l *learning) (int, error) {
		records, err := l.labels.Erase(ctx, id)
		if err != nil {
			return 0, err
		}
		return records, l.registry.Publish(ctx, retrain.Event{
			Kind: retrain.EventFeedbackErased, Time: time.Now().UTC(), Replica: l.operator.Replica, By: by,
			Reason: fmt.Sprintf("%d records of a response were erased", records),
		})
	})
}

// Stats implements api.FeedbackView.
func (d *desk) Stats(ctx context.Context) (feedback.Stats, error) {
	return ask(d, func(l *learning) (feedback.Stats, error) {
		s, _, err := l.loop.Outlook(ctx)
		return s.Stats, err
	})
}

// Candidates implements api.FeedbackView.
func (d *desk) Candidates(ctx context.Context, n int) ([]feedback.Candidate, error) {
	return ask(d, func(l *learning) ([]feedback.Candidate, error) { return l.candidates(ctx, n) })
}

// Current implements api.Registry.
func (d *desk) Current(ctx context.Context) (retrain.Current, error) {
	return ask(d, func(l *learning) (retrain.Current, error) { return l.registry.Current(ctx) })
}

// Model implements api.Registry.
func (d *desk) Model(ctx context.Context, version string) (retrain.Model, error) {
	return ask(d, func(l *learning) (retrain.Model, error) { return l.registry.Model(ctx, version) })
}

// Models implements api.Registry.
func (d *desk) Models(ctx context.Context) ([]retrain.Model, error) {
	return ask(d, func(l *learning) ([]retrain.Model, error) { return l.registry.Models(ctx) })
}

// Promote implements api.Promotions.
func (d *desk) Promote(ctx context.Context, version, by, reason string) (retrain.Current, error) {
	return ask(d, func(l *learning) (retrain.Current, error) { return l.operator.Promote(ctx, version, by, reason) })
}

// Rollback implements api.Promotions.
func (d *desk) Rollback(ctx context.Context, by, reason string) (retrain.Current, error) {
	return ask(d, func(l *learning) (retrain.Current, error) { return l.operator.Rollback(ctx, by, reason) })
}

// Training implements api.Trainings.
func (d *desk) Training(ctx context.Context) (api.Training, error) {
	return ask(d, func(l *learning) (api.Training, error) {
		s, decision, err := l.loop.Outlook(ctx)
		return api.Training{Status: s.Status, Auto: l.auto, Wait: decision.Wait, Next: decision.Next,
			Feedback: s.Stats, Drift: s.Drift, Disagreement: s.Disagreement}, err
	})
}

// Start implements api.Trainings.
func (d *desk) Start(ctx context.Context, by retrain.Ask) (retrain.Status, error) {
	return ask(d, func(l *learning) (retrain.Status, error) { return l.operator.Start(ctx, by) })
}

// Events implements api.EventSource.
func (d *desk) Events(ctx context.Context, after uint64) iter.Seq2[retrain.Event, error] {
	return func(yield func(retrain.Event, error) bool) {
		l, err := d.ready()
		if err != nil {
			yield(retrain.Event{}, err)
			return
		}
		l.registry.Events(ctx, after)(yield)
	}
}

// LastEvent implements api.EventSource.
func (d *desk) LastEvent(ctx context.Context) (uint64, error) {
	return ask(d, func(l *learning) (uint64, error) { return l.registry.LastEvent(ctx) })
}
