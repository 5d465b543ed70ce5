package api

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"assay/internal/servertls"
	"assay/rewardmodel"
)

// ServeOps serves health, metrics and profiles of a process that has no other endpoint
// of this package, on address, until ctx ends. /readyz checks ready. It serves plain
// HTTP if identity is nil.
func ServeOps(ctx context.Context, address string, identity *servertls.Identity, ready Check, log zerolog.Logger, registry *prometheus.Registry) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--ops-listen: %w; stop the process that uses the address, or choose another", err)
	}
	server, err := New(DefaultConfig(), Parts{Scorer: noModel{}, Models: noModel{}, Checks: []Check{ready}, TLS: identity}, log, registry)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	return server.ServeOps(context.WithoutCancel(ctx), listener)
}

// noModel takes the place of the models of a service.
type noModel struct{}

// Score implements Scorer.
func (noModel) Score(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return rewardmodel.ScoreResponse{}, fmt.Errorf("%w: this process does not score requests", rewardmodel.ErrNotReady)
}

// Models implements Models.
func (noModel) Models(context.Context) ([]Model, error) { return nil, nil }
