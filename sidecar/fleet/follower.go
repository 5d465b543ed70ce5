package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"assay/rewardmodel/retrain"
	"assay/rewardmodel/versions"
)

// follower keeps this replica on the current version of the fleet.
type follower struct {
	replica  string
	versions *versions.Set
	monitor  *monitor
	journal  retrain.Journal
	dirs     *CheckpointDirs
	log      zerolog.Logger
	outdated prometheus.Gauge
	reported string // the last failure, "" after a success
}

// newOutdated registers the gauge of a replica that does not serve the current version.
func newOutdated(reg prometheus.Registerer) prometheus.Gauge {
	return promauto.With(reg).NewGauge(prometheus.GaugeOpts{
		Name: "assay_model_outdated", Help: "1 while this replica cannot load the current version of the fleet and serves another.",
	})
}

// run applies the changes until ctx ends. It retries a version that cannot be loaded, while the previous one serves.
func (f *follower) run(ctx context.Context, changes <-chan retrain.Current) {
	var wanted retrain.Current
	var retry <-chan time.Time
	backoff := time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case next, ok := <-changes:
			if !ok {
				return
			}
			wanted, backoff = next, time.Second
		case <-retry:
		}
		retry = nil
		if wanted.Version == "" {
			continue
		}
		err := f.serve(ctx, wanted)
		if err == nil {
			f.reported = ""
			f.outdated.Set(0)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.reportFailure(ctx, wanted, err)
		retry = time.After(backoff)
		backoff = min(2*backoff, time.Minute)
	}
}

func (f *follower) serve(ctx context.Context, wanted retrain.Current) error {
	before := f.versions.Current().Version
	if before != wanted.Version {
		// A download here does not count against the rate limit of requests.
		if !f.loads(wanted.Version) {
			if _, err := f.dirs.Directory(ctx, wanted.Version); err != nil {
				return err
			}
		}
		if err := f.versions.Promote(ctx, wanted.Version); err != nil {
			return err
		}
		f.log.Info().Str("version", wanted.Version).Str("before", before).Str("by", wanted.By).Str("reason", wanted.Reason).
			Msg("promoted model version loaded")
	}
	f.monitor.watch(wanted.Version, aspectsOf(f.versions, wanted.Version))
	if err := f.dirs.prune(ctx); err != nil {
		f.log.Warn().Err(err).Msg("cannot remove cached models that are no longer needed")
	}
	return nil
}

// loads reports whether a version is loaded or being loaded.
func (f *follower) loads(version string) bool {
	return slices.ContainsFunc(f.versions.List(), func(v versions.Status) bool {
		return v.Version == version && v.Error == ""
	})
}

// reportFailure logs and publishes a failure to load the current version, and not the same failure of a retry again.
func (f *follower) reportFailure(ctx context.Context, wanted retrain.Current, err error) {
	f.outdated.Set(1)
	failure := fmt.Sprintf("%s %d: %v", wanted.Version, wanted.Revision, err)
	if f.reported == failure {
		return
	}
	f.reported = failure
	serving := f.versions.Current().Version
	message := "cannot load the current model version; serving another and retrying"
	if errors.Is(err, retrain.ErrNoFiles) || errors.Is(err, retrain.ErrNoModel) { // as after a start with another --model
		message = "cannot load the current model version; run assay models promote " + serving + ", or start with the --model that was current"
	}
	f.log.Error().Err(err).Str("version", wanted.Version).Str("serving", serving).Msg(message)
	_ = f.journal.Publish(ctx, retrain.Event{ // best effort: the failure is logged
		Kind: retrain.EventLoadFailed, Time: time.Now().UTC(), Replica: f.replica, Version: wanted.Version,
		Reason: fmt.Sprintf("still serving %s: %v", serving, err), Key: fmt.Sprint("load_failed.", wanted.Revision, ".", f.replica),
	})
}
