package fleet

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"assay/api"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// ControlPlane serves the HTTP endpoints for feedback, models and training runs. Before Connect, its methods return
// rewardmodel.ErrNotReady.
type ControlPlane struct {
	learning atomic.Pointer[Learning]
}

// Connect connects the control plane to the components behind it.
func (d *ControlPlane) Connect(l *Learning) { d.learning.Store(l) }

func (d *ControlPlane) ready() (*Learning, error) {
	if l := d.learning.Load(); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%w: the streams are being opened", rewardmodel.ErrNotReady)
}

// ask calls f if Connect has been called.
func ask[T any](d *ControlPlane, f func(*Learning) (T, error)) (T, error) {
	l, err := d.ready()
	if err != nil {
		var none T
		return none, err
	}
	return f(l)
}

// Append implements api.Feedback.
func (d *ControlPlane) Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error) {
	return ask(d, func(l *Learning) (feedback.Receipt, error) { return l.labels.Append(ctx, batch, by) })
}

// Erase implements api.Feedback.
func (d *ControlPlane) Erase(ctx context.Context, id, by string) (int, error) {
	return ask(d, func(l *Learning) (int, error) {
		records, err := l.labels.Erase(ctx, id)
		if err != nil {
			return 0, err
		}
		return records, l.registry.Publish(ctx, retrain.Event{
			Kind: retrain.EventFeedbackErased, Time: time.Now().UTC(), Replica: l.operator.Replica, By: by,
			Reason: fmt.Sprintf("erased %d records of a response", records),
		})
	})
}

// Withdraw implements api.Feedback.
func (d *ControlPlane) Withdraw(ctx context.Context, id, rater, by string) (int, error) {
	return ask(d, func(l *Learning) (int, error) { return l.labels.Withdraw(ctx, id, rater, by) })
}

// Labels implements api.FeedbackView.
func (d *ControlPlane) Labels(ctx context.Context, id string) (feedback.ResponseLabels, error) {
	return ask(d, func(l *Learning) (feedback.ResponseLabels, error) {
		given, err := l.labels.LabelsOf(ctx, id)
		_, aspects, _ := l.monitor.watched()
		l.labels.Index().Majority(&given, aspects...)
		return given, err
	})
}

// Stats implements api.FeedbackView.
func (d *ControlPlane) Stats(ctx context.Context) (feedback.Stats, error) {
	return ask(d, func(l *Learning) (feedback.Stats, error) {
		s, _, err := l.loop.Outlook(ctx)
		return s.Stats, err
	})
}

// Candidates implements api.FeedbackView.
func (d *ControlPlane) Candidates(ctx context.Context, n int) ([]feedback.Candidate, error) {
	return ask(d, func(l *Learning) ([]feedback.Candidate, error) { return l.candidates(ctx, n) })
}

// Current implements api.Registry.
func (d *ControlPlane) Current(ctx context.Context) (retrain.Current, error) {
	return ask(d, func(l *Learning) (retrain.Current, error) { return l.registry.Current(ctx) })
}

// Model implements api.Registry.
func (d *ControlPlane) Model(ctx context.Context, version string) (retrain.Model, error) {
	return ask(d, func(l *Learning) (retrain.Model, error) { return l.registry.Model(ctx, version) })
}

// Models implements api.Registry.
func (d *ControlPlane) Models(ctx context.Context) ([]retrain.Model, error) {
	return ask(d, func(l *Learning) ([]retrain.Model, error) { return l.registry.Models(ctx) })
}

// Promote implements api.Promotions.
func (d *ControlPlane) Promote(ctx context.Context, version, by, reason string) (retrain.Current, error) {
	return ask(d, func(l *Learning) (retrain.Current, error) { return l.operator.Promote(ctx, version, by, reason) })
}

// Rollback implements api.Promotions.
func (d *ControlPlane) Rollback(ctx context.Context, by, reason string) (retrain.Current, error) {
	return ask(d, func(l *Learning) (retrain.Current, error) { return l.operator.Rollback(ctx, by, reason) })
}

// Training implements api.Trainer.
func (d *ControlPlane) Training(ctx context.Context) (api.Training, error) {
	return ask(d, func(l *Learning) (api.Training, error) {
		s, decision, err := l.loop.Outlook(ctx)
		return api.Training{Status: s.Status, Auto: l.auto, Wait: decision.Wait, Next: decision.Next,
			Feedback: s.Stats, Drift: s.Drift, Disagreement: s.Disagreement}, err
	})
}

// Start implements api.Trainer.
func (d *ControlPlane) Start(ctx context.Context, by retrain.TrainingRequest) (retrain.Status, error) {
	return ask(d, func(l *Learning) (retrain.Status, error) { return l.operator.Start(ctx, by) })
}

// Stop implements api.Trainer.
func (d *ControlPlane) Stop(ctx context.Context, id string, by retrain.Cancellation) (retrain.Status, error) {
	return ask(d, func(l *Learning) (retrain.Status, error) { return l.operator.Stop(ctx, id, by) })
}

// Events implements api.EventSource.
func (d *ControlPlane) Events(ctx context.Context, after uint64) iter.Seq2[retrain.Event, error] {
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
func (d *ControlPlane) LastEvent(ctx context.Context) (uint64, error) {
	return ask(d, func(l *Learning) (uint64, error) { return l.registry.LastEvent(ctx) })
}
