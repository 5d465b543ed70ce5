package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/queue/labels"
	"assay/queue/registry"
)

// Defaults of streams that assay creates.
const (
	DefaultDuplicateWindow   = 15 * time.Minute
	DefaultResponsesMaxBytes = 1 << 30
	DefaultRewardsMaxBytes   = 1 << 30
	DefaultRewardsMaxAge     = 7 * 24 * time.Hour
	DefaultDeadMaxBytes      = 256 << 20
	DefaultDeadMaxAge        = 30 * 24 * time.Hour
	DefaultFeedbackMaxBytes  = 1 << 30
	DefaultScoredMaxBytes    = 1 << 30
	DefaultModelsMaxBytes    = 16 << 30
	DefaultEventsMaxBytes    = 64 << 20
	DefaultEventsMaxAge      = 90 * 24 * time.Hour

	stateMaxBytes = 1 << 30
	// minModelsBytes is the smallest default size of the bucket of models, on a
	// server with little storage: a small model fits a few times.
	minModelsBytes = 512 << 20
	// stateHistory is how many values of a key are kept, for operators who want to
	// know the earlier ones.
	stateHistory = 8
	// eventsWindow is how long the key of an event is remembered: longer than a
	// process that died while it published an event stays down.
	eventsWindow = 24 * time.Hour
)

// StreamsConfig sets the limits of the streams. A zero value means the default for a
// stream that is created, and no change for one that exists: an operator's own
// settings stay. A stream that exists is only ever enlarged.
type StreamsConfig struct {
	Replicas          int           // copies of each stream in a cluster; default 1
	DuplicateWindow   time.Duration // how long a Nats-Msg-Id is remembered
	ResponsesMaxBytes int64         // unscored responses; when full, publishing fails visibly
	RewardsMaxBytes   int64         // the oldest are dropped first
	RewardsMaxAge     time.Duration
	DeadMaxBytes      int64
	DeadMaxAge        time.Duration
	FeedbackMaxBytes  int64         // labels with their texts; when full, feedback is rejected
	FeedbackMaxAge    time.Duration // of a label, checked every hour or more often; default 0: forever
	KeepScored        time.Duration // how long scored responses are kept; default 0: they are not
	ScoredMaxBytes    int64         // the oldest are dropped first
	ModelsMaxBytes    int64         // files of models; when full, storing one fails
	EventsMaxBytes    int64
	EventsMaxAge      time.Duration

	apiLevel2    bool          // the server has atomic batches and persist modes (2.12)
	stateBytes   int64         // of the bucket of states
	eventsWindow time.Duration // as DuplicateWindow
}

// streams returns the configuration of each stream. maxPayload is that of the server.
func (c StreamsConfig) streams(maxPayload int64) []jetstream.StreamConfig {
	return append([]jetstream.StreamConfig{{
		Name:        StreamResponses,
		Description: "responses to score, each until it is completed",
		Subjects:    []string{SubjectResponses + ".>"},
		// A work queue keeps a response until it is acknowledged, however
		// long that takes, and then frees its space. When it is full the
		// publisher gets an error, and no response is lost.
		Retention: jetstream.WorkQueuePolicy,
		Discard:   jetstream.DiscardNew,
		MaxBytes:  c.ResponsesMaxBytes,
		// A dead letter contains a response and the reason: both must fit.
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
		Description: "responses that cannot be scored, with the reason",
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
	// The server rejects a window that is longer than the age of messages.
	c.DuplicateWindow = cmp.Or(c.DuplicateWindow, min(DefaultDuplicateWindow, c.RewardsMaxAge, c.DeadMaxAge))
	return c.withModelDefaults()
}

// feedbackStreams returns the configurations of the streams of labels and of scored
// responses.
func (c StreamsConfig) feedbackStreams() []jetstream.StreamConfig {
	records := jetstream.StreamConfig{
		Name:        labels.StreamFeedback,
		Description: "labels of whole responses: the latest of each response and rater",
		Subjects:    []string{labels.SubjectFeedback + ".>"},
		// A correction replaces what it corrects.
		MaxMsgsPerSubject: 1,
		// When it is full the sender of feedback gets an error, and no label is
		// lost.
		Discard:  jetstream.DiscardNew,
		MaxBytes: c.FeedbackMaxBytes,
		// No maximum age: tombstones must stay, and a server that restarts drops
		// everything that is older. The log of labels expires records itself.
		MaxMsgSize: -1,
		// No AllowDirect, so that reads go to the leader: a follower that lacks a
		// label would hide it.
		Duplicates: c.DuplicateWindow,
		Replicas:   c.Replicas,
		// One fsync covers many labels, on servers with atomic batches.
		AllowAtomicPublish: c.apiLevel2,
	}
	if c.KeepScored <= 0 {
		return []jetstream.StreamConfig{records}
	}
	persist := jetstream.DefaultPersistMode
	if c.apiLevel2 && c.Replicas <= 1 {
		// No client relies on a scored response being kept, and each would cost an
		// fsync: the server may write these later.
		persist = jetstream.AsyncPersistMode
	}
	return []jetstream.StreamConfig{records, {
		Name:              labels.StreamScored,
		PersistMode:       persist,
		Description:       "scored responses, kept for a time for feedback by response_id",
		Subjects:          []string{labels.SubjectScored + ".>"},
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardOld,
		MaxBytes:          c.ScoredMaxBytes,
		MaxAge:            c.KeepScored,
		MaxMsgSize:        -1,
		AllowDirect:       true,
		Replicas:          c.Replicas,
	}}
}

// withFeedbackDefaults fills the zero values for streams that are created.
func (c StreamsConfig) withFeedbackDefaults() StreamsConfig {
	c.FeedbackMaxBytes = cmp.Or(c.FeedbackMaxBytes, DefaultFeedbackMaxBytes)
	c.ScoredMaxBytes = cmp.Or(c.ScoredMaxBytes, DefaultScoredMaxBytes)
	return c
}

// models returns the configurations of the streams of models and events. The buckets
// have no AllowDirect, so that reads go to their leader: a follower may be behind.
func (c StreamsConfig) models() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{{
		Name:        registry.StreamEvents,
		Description: "events of models, training runs and feedback",
		Subjects:    []string{registry.SubjectEvents + ".>"},
		MaxBytes:    c.EventsMaxBytes,
		MaxAge:      c.EventsMaxAge,
		MaxMsgSize:  -1,
		Duplicates:  c.eventsWindow,
		Replicas:    c.Replicas,
	}, {
		Name:              registry.StreamState,
		Description:       "the current model, all versions, and the state of training",
		Subjects:          []string{registry.SubjectState + ">"},
		Discard:           jetstream.DiscardNew,
		MaxBytes:          c.stateBytes,
		MaxMsgsPerSubject: stateHistory,
		MaxMsgSize:        -1,
		AllowRollup:       true,
		DenyDelete:        true,
		Replicas:          c.Replicas,
	}, {
		Name:        registry.StreamModels,
		Description: "the files of models",
		Subjects:    []string{registry.SubjectChunks + ">", registry.SubjectNames + ">"},
		Discard:     jetstream.DiscardNew,
		MaxBytes:    c.ModelsMaxBytes,
		MaxMsgSize:  -1,
		AllowRollup: true,
		Replicas:    c.Replicas,
	}}
}

// withModelDefaults fills the zero values for streams that are created.
func (c StreamsConfig) withModelDefaults() StreamsConfig {
	c.ModelsMaxBytes = cmp.Or(c.ModelsMaxBytes, DefaultModelsMaxBytes)
	c.EventsMaxBytes = cmp.Or(c.EventsMaxBytes, DefaultEventsMaxBytes)
	c.EventsMaxAge = cmp.Or(c.EventsMaxAge, DefaultEventsMaxAge)
	c.eventsWindow = min(eventsWindow, c.EventsMaxAge)
	c.stateBytes = stateMaxBytes
	return c
}
