package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"assay/rewardmodel/retrain"
	"assay/rewardmodel/versions"
)

// follower keeps this replica on the version that the fleet names as current.
type follower struct {
	replica  string
	versions *versions.Set
	monitor  *monitor
	journal  retrain.Journal
	dirs     *CheckpointDirs
	statuses retrain.Statuses
	currents retrain.Currents
	log      zerolog.Logger
}

// run follows the changes until ctx ends. A version that cannot be loaded is tried again while the one before serves.
func (f *follower) run(ctx context.Context, changes <-chan retrain.Current) {
	var wanted retrain.Current
	var again <-chan time.Time
	pause := time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case next, ok := <-changes:
			if !ok {
				return
			}
			wanted, pause = next, time.Second
		case <-again:
		}
		again = nil
		if wanted.Version == "" {
			continue
		}
		err := f.serve(ctx, wanted)
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.reportFailure(ctx, wanted, err)
		again = time.After(pause)
		pause = min(2*pause, time.Minute)
	}
}

func (f *follower) serve(ctx context.Context, wanted retrain.Current) error {
	before := f.versions.Current().Version
	if before != wanted.Version {
		// Fetched here, it does not count among what requests have fetched.
		if !f.loads(wanted.Version) {
			if _, err := f.dirs.Directory(ctx, wanted.Version); err != nil {
				return err
			}
		}
		if err := f.versions.Promote(ctx, wanted.Version); err != nil {
			return err
		}
		f.log.Info().Str("version", wanted.Version).Str("before", before).Str("by", wanted.By).Str("reason", wanted.Reason).
			Msg("serving another model version")
	}
	f.monitor.watch(wanted.Version)
	if err := f.dirs.prune(f.needed(ctx, wanted)); err != nil {
		f.log.Warn().Err(err).Msg("cannot remove fetched models that nobody needs")
	}
	return nil
}

// loads reports whether a version is loaded or being loaded.
func (f *follower) loads(version string) bool {
	return slices.ContainsFunc(f.versions.List(), func(v versions.Status) bool {
		return v.Version == version && v.Error == ""
	})
}

// needed reports the versions whose fetched directories stay: those that are loaded, the way back, and the one that a
// training is judged against.
func (f *follower) needed(ctx context.Context, current retrain.Current) func(version string) bool {
	status, err := f.statuses.Status(ctx)
	if err != nil {
		return func(string) bool { return true } // another time
	}
	keep := append([]string{current.Version, status.Base}, current.Previous...)
	for _, v := range f.versions.List() {
		keep = append(keep, v.Version)
	}
	return func(version string) bool { return slices.Contains(keep, version) }
}

// neededNow is needed for the version that is current now.
func (f *follower) neededNow(ctx context.Context) func(version string) bool {
	current, err := f.currents.Current(ctx)
	if err != nil {
		return func(string) bool { return true } // another time
	}
	return f.needed(ctx, current)
}

func (f *follower) reportFailure(ctx context.Context, wanted retrain.Current, err error) {
	serving := f.versions.Current().Version
	f.log.Error().Err(err).Str("version", wanted.Version).Str("serving", serving).Msg("cannot load the current model version; trying again")
	_ = f.journal.Publish(ctx, retrain.Event{ // it was logged
		Kind: retrain.EventLoadFailed, Time: time.Now().UTC(), Replica: f.replica, Version: wanted.Version,
		Reason: fmt.Sprintf("serving %s meanwhile: %v", serving, err), Key: fmt.Sprint("load_failed.", wanted.Revision, ".", f.replica),
	})
}
