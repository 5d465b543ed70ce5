package serve

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	"assay/api"
	"assay/queue"
	"assay/rewardmodel"
	"assay/rewardmodel/versions"
	"assay/sidecar/fleet"
)

// modelHandle is the scorer of HTTP, gRPC and NATS. It exists from the start, before
// the model is loaded and the streams are open.
type modelHandle struct {
	versions atomic.Pointer[versions.Set]
	queue    atomic.Pointer[queue.Queue]
	learning atomic.Pointer[fleet.Learning]
	watchdog watchdog
}

// Score scores with the loaded versions, or returns rewardmodel.ErrNotReady if there are none yet.
func (l *modelHandle) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	versions := l.versions.Load()
	if versions == nil {
		return rewardmodel.ScoreResponse{}, l.modelReady(ctx)
	}
	if learning := l.learning.Load(); learning != nil {
		return learning.Observe(ctx, req)
	}
	return versions.Score(ctx, req)
}

// Live opens a live session, or returns rewardmodel.ErrNotReady if there is no model yet.
func (l *modelHandle) Live(ctx context.Context, request rewardmodel.LiveRequest) (*rewardmodel.Live, func(), error) {
	versions := l.versions.Load()
	if versions == nil {
		return nil, nil, l.modelReady(ctx)
	}
	if learning := l.learning.Load(); learning != nil {
		request.Scored = learning.Scored
	}
	return versions.Live(ctx, request)
}

// Models lists the loaded versions, the current one first.
func (l *modelHandle) Models(context.Context) ([]api.Model, error) {
	versions := l.versions.Load()
	if versions == nil {
		return nil, nil
	}
	var models []api.Model
	for _, v := range versions.List() {
		if v.Loaded {
			m := api.Model{
				Name: v.Name, Version: v.Version, Created: v.Created, Labels: v.Labels, Numerics: v.Numerics,
				Threshold: v.Aspects[0].Threshold(rewardmodel.AggregateMax),
			}
			if len(v.Aspects) > 1 {
				m.Aspects, m.Combination = v.Aspects, v.Combination
			}
			models = append(models, m)
		}
	}
	return models, nil
}

// erased reports whether everything about a response was erased on request.
func (l *modelHandle) erased(id string) bool {
	learning := l.learning.Load()
	return learning != nil && learning.Erased(id)
}

func (l *modelHandle) modelReady(context.Context) error {
	if l.versions.Load() == nil {
		return fmt.Errorf("%w: the model is being loaded", rewardmodel.ErrNotReady)
	}
	if err := cmp.Or(l.watchdog.Stalled(), context.Cause(l.watchdog.Usable())); err != nil {
		return fmt.Errorf("%w: %w", rewardmodel.ErrNotReady, err)
	}
	return nil
}

func (l *modelHandle) streamsReady(ctx context.Context) error {
	q := l.queue.Load()
	if q == nil {
		return fmt.Errorf("%w: the streams are being opened", rewardmodel.ErrNotReady)
	}
	return q.Ready(ctx)
}
