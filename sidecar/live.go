package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/assay-ai/assay/api"
	"github.com/assay-ai/assay/queue"
	"github.com/assay-ai/assay/rewardmodel"
)

// live is what HTTP talks to from the first moment on, while the model and the
// streams are still on their way.
type live struct {
	model atomic.Pointer[liveModel]
	queue atomic.Pointer[queue.Queue]
}

type liveModel struct {
	*servingModel
	about api.Model
}

// Score is the model's, or says that there is none yet.
func (l *live) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.Answer, error) {
	m := l.model.Load()
	if m == nil {
		return rewardmodel.Answer{}, l.modelReady(ctx)
	}
	return m.Score(ctx, req)
}

// Models lists the model that serves.
func (l *live) Models(context.Context) ([]api.Model, error) {
	if m := l.model.Load(); m != nil {
		return []api.Model{m.about}, nil
	}
	return nil, nil
}

func (l *live) modelReady(context.Context) error {
	if l.model.Load() == nil {
		return fmt.Errorf("%w: the model is being loaded", api.ErrNotReady)
	}
	return nil
}

func (l *live) streamsReady(ctx context.Context) error {
	q := l.queue.Load()
	if q == nil {
		return fmt.Errorf("%w: the streams are being opened", api.ErrNotReady)
	}
	return q.Ready(ctx)
}
