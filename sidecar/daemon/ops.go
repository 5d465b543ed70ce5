package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"assay/api"
	"assay/rewardmodel"
)

// serveOps serves health, metrics and profiles of a process without endpoints of its own
// until ctx ends.
func serveOps(ctx context.Context, address string, ready api.Check, log zerolog.Logger, registry *prometheus.Registry) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--ops-listen: %w; stop the process that uses the address, or choose another", err)
	}
	server, err := api.New(api.DefaultConfig(), api.Parts{Scorer: noScorer{}, Models: noScorer{}, Checks: []api.Check{ready}}, log, registry)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	return server.ServeOps(context.WithoutCancel(ctx), listener)
}

// noScorer takes the place of the models of a service.
type noScorer struct{}

func (noScorer) Score(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return rewardmodel.ScoreResponse{}, fmt.Errorf("%w: a proxy does not score requests", rewardmodel.ErrNotReady)
}

func (noScorer) Models(context.Context) ([]api.Model, error) { return nil, nil }
