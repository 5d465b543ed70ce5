package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"assay/queue/internal/js"
	"assay/queue/labels"
	"assay/queue/registry"
)

// ErrIncompatibleStream reports that a stream of the same name exists whose settings
// break the delivery guarantee. It is never changed or deleted.
var ErrIncompatibleStream = errors.New("incompatible stream")

// ensureStreams creates the streams that are missing, checks that all are compatible,
// and updates those that are smaller than cfg, or read otherwise. Replicas may run it concurrently.
func ensureStreams(ctx context.Context, jet jetstream.JetStream, cfg StreamsConfig, maxPayload int64, log zerolog.Logger) error {
	fresh := cfg.withDefaults().streams(maxPayload)
	for i, want := range cfg.streams(maxPayload) {
		stream, err := jet.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			smallest := fresh[i].MaxBytes
			if want.Name == registry.StreamModels && want.MaxBytes == 0 {
				smallest = minModelsBytes
			}
			stream, err = createShrinking(ctx, jet, fresh[i], smallest)
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", want.Name, js.Explain(err))
		}
		have := stream.CachedInfo().Config
		if why := incompatible(have, want); why != "" {
			return fmt.Errorf("%w %s: %s; rename or remove it (assay does not change it)", ErrIncompatibleStream, want.Name, why)
		}
		next, kept := enlarge(have, want)
		for _, setting := range kept {
			log.Warn().Str("stream", want.Name).Str("setting", setting).
				Msg("the stream exists with a larger value, which is kept; to shrink it, use nats stream edit")
		}
		if next == (limits{}) {
			continue
		}
		_, err = jet.UpdateStream(ctx, next.apply(have))
		switch {
		case err != nil && next == limits{atomic: true}:
			log.Warn().Err(err).Str("stream", want.Name).Msg("cannot allow atomic batches; labels are stored by one message each")
		case err != nil:
			return fmt.Errorf("stream %s: updating it: %w", want.Name, js.Explain(err))
		}
	}
	if cfg.KeepScored > 0 {
		return setScoredMaxAge(ctx, jet, cfg.KeepScored)
	}
	return nil
}

// createStream creates a stream, or returns the one that another replica created in the
// meantime.
func createStream(ctx context.Context, jet jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := jet.CreateStream(ctx, cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return jet.Stream(ctx, cfg.Name)
	}
	return stream, err
}

// hasAPILevel2 reports whether a server of a version such as "2.12.1" has atomic batches
// and persist modes.
func hasAPILevel2(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 2 || major == 2 && minor >= 12
}

// createShrinking creates a stream of the default size, or, if the server has less
// storage, half of it, and so on down to the smallest useful size.
func createShrinking(ctx context.Context, jet jetstream.JetStream, cfg jetstream.StreamConfig, smallest int64) (jetstream.Stream, error) {
	for {
		stream, err := createStream(ctx, jet, cfg)
		if err == nil || !js.InsufficientStorage(err) || cfg.MaxBytes/2 < smallest {
			return stream, err
		}
		cfg.MaxBytes /= 2
	}
}

// setScoredMaxAge sets the maximum age of scored responses, even if that shortens it:
// how long texts are kept is a promise to their authors, and not a size.
func setScoredMaxAge(ctx context.Context, jet jetstream.JetStream, keep time.Duration) error {
	stream, err := jet.Stream(ctx, labels.StreamScored)
	if err != nil {
		return fmt.Errorf("stream %s: %w", labels.StreamScored, js.Explain(err))
	}
	cfg := stream.CachedInfo().Config
	if cfg.MaxAge == keep {
		return nil
	}
	cfg.MaxAge = keep
	cfg.Duplicates = min(cfg.Duplicates, keep)
	if _, err := jet.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("stream %s: setting its maximum age: %w", labels.StreamScored, js.Explain(err))
	}
	return nil
}

// limits are the settings of a stream that may grow, and those that an earlier version
// created otherwise; zero means no change.
type limits struct {
	maxBytes           int64
	maxAge, duplicates time.Duration
	replicas           int
	atomic             bool
	leaderReads        bool // no longer from any server
}

func (l limits) apply(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.MaxBytes = cmp.Or(l.maxBytes, cfg.MaxBytes)
	cfg.MaxAge = cmp.Or(l.maxAge, cfg.MaxAge)
	cfg.Duplicates = cmp.Or(l.duplicates, cfg.Duplicates)
	cfg.Replicas = cmp.Or(l.replicas, cfg.Replicas)
	cfg.AllowAtomicPublish = cfg.AllowAtomicPublish || l.atomic
	cfg.AllowDirect = cfg.AllowDirect && !l.leaderReads
	return cfg
}

// enlarge returns what must change so that have reaches want, and the names of the
// settings that want would shrink.
func enlarge(have, want jetstream.StreamConfig) (next limits, kept []string) {
	next.maxBytes = grow("maximum bytes", have.MaxBytes, want.MaxBytes, have.MaxBytes <= 0, &kept)
	next.maxAge = grow("maximum age", have.MaxAge, want.MaxAge, have.MaxAge == 0, &kept)
	next.duplicates = grow("duplicate window", have.Duplicates, want.Duplicates, false, &kept)
	if have.PersistMode != jetstream.AsyncPersistMode { // which has one copy at most
		next.replicas = grow("replicas", have.Replicas, want.Replicas, false, &kept)
	}
	next.atomic = want.AllowAtomicPublish && !have.AllowAtomicPublish
	next.leaderReads = have.AllowDirect && want.Name == labels.StreamFeedback
	return next, kept
}

func grow[T int | int64 | time.Duration](name string, have, want T, unlimited bool, kept *[]string) T {
	switch {
	case want == 0 || want == have:
		return 0
	case unlimited || want < have:
		*kept = append(*kept, name)
		return 0
	}
	return want
}
