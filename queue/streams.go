package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// Defaults of streams that assay creates.
const (
	DefaultDuplicateWindow   = 15 * time.Minute
	DefaultResponsesMaxBytes = 1 << 30
	DefaultRewardsMaxBytes   = 1 << 30
	DefaultRewardsMaxAge     = 7 * 24 * time.Hour
	DefaultDeadMaxBytes      = 256 << 20
	DefaultDeadMaxAge        = 30 * 24 * time.Hour
)

// ErrIncompatibleStream says that a stream of our name exists whose settings
// break the delivery guarantee. It is never changed or deleted.
var ErrIncompatibleStream = errors.New("incompatible stream")

// StreamsConfig sets the limits of the streams. A zero value means the default
// for a stream that is created, and "as it is" for one that exists: so an
// operator's own settings stay. A stream that exists is only ever enlarged.
type StreamsConfig struct {
	Replicas          int           // copies of each stream in a cluster; default 1
	DuplicateWindow   time.Duration // how long a Nats-Msg-Id is remembered
	ResponsesMaxBytes int64         // unscored responses; when full, publishing fails visibly
	RewardsMaxBytes   int64         // the oldest go first
	RewardsMaxAge     time.Duration
	DeadMaxBytes      int64
	DeadMaxAge        time.Duration
	FeedbackMaxBytes  int64         // labels with their texts; when full, feedback is refused
	FeedbackMaxAge    time.Duration // of a label, checked every hour at least; default 0, for ever
	KeepScored        time.Duration // how long scored responses are kept; default 0, not at all
	ScoredMaxBytes    int64         // the oldest go first
	ModelsMaxBytes    int64         // files of models; when full, storing one fails
	EventsMaxBytes    int64
	EventsMaxAge      time.Duration

	apiLevel2    bool          // the server has atomic batches and persist modes (2.12)
	stateBytes   int64         // of the bucket of states
	eventsWindow time.Duration // as DuplicateWindow
}

// streams returns what each stream must be. maxPayload is the server's.
func (c StreamsConfig) streams(maxPayload int64) []jetstream.StreamConfig {
	return append([]jetstream.StreamConfig{{
		Name:        StreamResponses,
		Description: "responses to score, each until it is settled",
		Subjects:    []string{SubjectResponses + ".>"},
		// A work queue keeps a response until it is acknowledged, however
		// long that takes, and then frees its space. When it is full the
		// publisher gets an error, instead of the oldest response being lost.
		Retention: jetstream.WorkQueuePolicy,
		Discard:   jetstream.DiscardNew,
		MaxBytes:  c.ResponsesMaxBytes,
		// A dead letter holds a response and says why: both must fit.
		MaxMsgSize: int32(maxPayload - deadRoom),
		Duplicates: c.DuplicateWindow,
		Replicas:   c.Replicas,
	}, {
		Name:        StreamRewards,
		Description: "one result for each response",
		Subjects:    []string{SubjectRewards + ".>"},
		MaxBytes:    c.RewardsMaxBytes,
		MaxAge:      c.RewardsMaxAge,
		MaxMsgSize:  -1,
		Duplicates:  c.DuplicateWindow,
		Replicas:    c.Replicas,
	}, {
		Name:        StreamDead,
		Description: "responses that cannot be scored, with why",
		Subjects:    []string{SubjectDead + ".>"},
		MaxBytes:    c.DeadMaxBytes,
		MaxAge:      c.DeadMaxAge,
		MaxMsgSize:  -1,
		Duplicates:  c.DuplicateWindow,
		Replicas:    c.Replicas,
	}}, slices.Concat(c.feedbackStreams(), c.models())...)
}

// withDefaults fills the zero values for streams that are created.
func (c StreamsConfig) withDefaults() StreamsConfig {
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.ResponsesMaxBytes = cmp.Or(c.ResponsesMaxBytes, DefaultResponsesMaxBytes)
	c.RewardsMaxBytes = cmp.Or(c.RewardsMaxBytes, DefaultRewardsMaxBytes)
	c.RewardsMaxAge = cmp.Or(c.RewardsMaxAge, DefaultRewardsMaxAge)
	c.DeadMaxBytes = cmp.Or(c.DeadMaxBytes, DefaultDeadMaxBytes)
	c.DeadMaxAge = cmp.Or(c.DeadMaxAge, DefaultDeadMaxAge)
	c = c.withFeedbackDefaults()
	// The server refuses a window that outlasts the messages.
	c.DuplicateWindow = cmp.Or(c.DuplicateWindow, min(DefaultDuplicateWindow, c.RewardsMaxAge, c.DeadMaxAge))
	return c.withModelDefaults()
}

// ensureStreams makes the streams exist, compatible and at least as large as
// cfg says. It may run in every replica at once.
func ensureStreams(ctx context.Context, js jetstream.JetStream, cfg StreamsConfig, maxPayload int64, log zerolog.Logger) error {
	fresh := cfg.withDefaults().streams(maxPayload)
	for i, want := range cfg.streams(maxPayload) {
		stream, err := js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			least := fresh[i].MaxBytes
			if want.Name == streamModels && want.MaxBytes == 0 {
				least = leastModelsBytes
			}
			stream, err = createShrinking(ctx, js, fresh[i], least)
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", want.Name, explain(err))
		}
		have := stream.CachedInfo().Config
		if why := incompatible(have, want); why != "" {
			return fmt.Errorf("%w %s: %s; rename or remove it (it is left as it is)", ErrIncompatibleStream, want.Name, why)
		}
		next, kept := enlarge(have, want)
		for _, setting := range kept {
			log.Warn().Str("stream", want.Name).Str("setting", setting).
				Msg("the stream exists with a larger value, which is kept; to shrink it, use nats stream edit")
		}
		if next == (limits{}) {
			continue
		}
		_, err = js.UpdateStream(ctx, next.apply(have))
		switch {
		case err != nil && next == limits{atomic: true}:
			log.Warn().Err(err).Str("stream", want.Name).Msg("cannot allow atomic batches, so labels are stored by a message each")
		case err != nil:
			return fmt.Errorf("stream %s: enlarging it: %w", want.Name, explain(err))
		}
	}
	if cfg.KeepScored > 0 {
		return forget(ctx, js, cfg.KeepScored)
	}
	return nil
}

// createStream creates a stream, or takes the one that another replica created
// meanwhile.
func createStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.CreateStream(ctx, cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return js.Stream(ctx, cfg.Name)
	}
	return stream, err
}

// hasAPILevel2 reports whether a server of a version such as "2.12.1" has atomic
// batches and persist modes.
func hasAPILevel2(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 2 || major == 2 && minor >= 12
}

// explain adds what to do to errors that an operator can mend.
func explain(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("JetStream does not answer: %w; start the server with -js, or enable JetStream for this account; behind a leaf node, name its domain with --nats-jetstream-domain", err)
	case errors.As(err, &api) && strings.Contains(api.Description, "insufficient"):
		return fmt.Errorf("%w; give JetStream more storage or lower the streams' maximum bytes", err)
	}
	return err
}

// incompatible names the first setting of an existing stream that would lose
// responses or rewards, or "".
func incompatible(have, want jetstream.StreamConfig) string {
	queue := want.Retention == jetstream.WorkQueuePolicy
	switch {
	case have.Retention != want.Retention:
		return fmt.Sprintf("retention is %v, must be %v", have.Retention, want.Retention)
	case have.Storage != jetstream.FileStorage:
		return "storage is memory, must be file"
	case have.PersistMode == jetstream.AsyncPersistMode && want.Name != StreamScored: // which keeps the mode it was created with
		return "it acknowledges before it writes (persist_mode async), must be default"
	case have.NoAck || have.Sealed || have.Mirror != nil:
		return "it is a mirror, sealed, or does not acknowledge"
	case !slices.Contains(have.Subjects, want.Subjects[0]):
		return fmt.Sprintf("subjects are %v, must hold %s", have.Subjects, want.Subjects[0])
	case have.SubjectTransform != nil:
		return "it transforms subjects"
	case queue && (have.MaxAge > 0 || have.MaxMsgsPerSubject > 0):
		return "it drops responses by age or by subject before they are scored"
	case queue && have.Discard != jetstream.DiscardNew && (have.MaxBytes > 0 || have.MaxMsgs > 0):
		return "it discards the oldest responses when full, must discard new ones"
	}
	return cmp.Or(incompatibleLog(have, want), incompatibleBucket(have, want))
}

// limits are the settings of a stream that grow; zero means no change.
type limits struct {
	maxBytes           int64
	maxAge, duplicates time.Duration
	replicas           int
	atomic             bool
}

func (l limits) apply(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.MaxBytes = cmp.Or(l.maxBytes, cfg.MaxBytes)
	cfg.MaxAge = cmp.Or(l.maxAge, cfg.MaxAge)
	cfg.Duplicates = cmp.Or(l.duplicates, cfg.Duplicates)
	cfg.Replicas = cmp.Or(l.replicas, cfg.Replicas)
	cfg.AllowAtomicPublish = cfg.AllowAtomicPublish || l.atomic
	return cfg
}

// enlarge returns what must change for have to reach what want sets, and the
// names of the settings that want would shrink.
func enlarge(have, want jetstream.StreamConfig) (next limits, kept []string) {
	next.maxBytes = grow("maximum bytes", have.MaxBytes, want.MaxBytes, have.MaxBytes <= 0, &kept)
	next.maxAge = grow("maximum age", have.MaxAge, want.MaxAge, have.MaxAge == 0, &kept)
	next.duplicates = grow("duplicate window", have.Duplicates, want.Duplicates, false, &kept)
	if have.PersistMode != jetstream.AsyncPersistMode { // which has one copy at most
		next.replicas = grow("replicas", have.Replicas, want.Replicas, false, &kept)
	}
	next.atomic = want.AllowAtomicPublish && !have.AllowAtomicPublish
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
