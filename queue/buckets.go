package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Defaults of the streams and buckets of models that assay creates.
const (
	DefaultModelsMaxBytes = 16 << 30
	DefaultEventsMaxBytes = 64 << 20
	DefaultEventsMaxAge   = 90 * 24 * time.Hour
	stateMaxBytes         = 1 << 30
	// leastModelsBytes is where a bucket of the default size stops to shrink
	// on a server with little storage: a small model fits some times.
	leastModelsBytes = 512 << 20
	// stateHistory is how many values of a key are kept, for whoever wants to
	// know what it was.
	stateHistory = 8
	// eventsWindow is how long the key of an event is remembered: longer than
	// a process that died in the middle stays away.
	eventsWindow = 24 * time.Hour
)

// What a key-value bucket and an object store are for JetStream: streams with
// names and subjects that all clients of NATS agree on.
const (
	streamState  = "KV_" + BucketState
	streamModels = "OBJ_" + BucketModels

	stateSubject  = "$KV." + BucketState + "."
	chunkSubject  = "$O." + BucketModels + ".C."
	objectSubject = "$O." + BucketModels + ".M."
)

// models returns what the streams of models, trainings and events must be.
// Reads of the buckets go to their leader, as one of its followers may answer
// with what was true a moment ago: no AllowDirect.
func (c StreamsConfig) models() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{{
		Name:        StreamEvents,
		Description: "what happens to models, trainings and feedback",
		Subjects:    []string{SubjectEvents + ".>"},
		MaxBytes:    c.EventsMaxBytes,
		MaxAge:      c.EventsMaxAge,
		MaxMsgSize:  -1,
		Duplicates:  c.eventsWindow,
		Replicas:    c.Replicas,
	}, {
		Name:              streamState,
		Description:       "the current model, all versions, and the training",
		Subjects:          []string{stateSubject + ">"},
		Discard:           jetstream.DiscardNew,
		MaxBytes:          c.stateBytes,
		MaxMsgsPerSubject: stateHistory,
		MaxMsgSize:        -1,
		AllowRollup:       true,
		DenyDelete:        true,
		Replicas:          c.Replicas,
	}, {
		Name:        streamModels,
		Description: "the files of models",
		Subjects:    []string{chunkSubject + ">", objectSubject + ">"},
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

// createShrinking creates a stream of the default size, or, where the server
// has less storage, half of it, and so on down to the least that is useful.
func createShrinking(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, least int64) (jetstream.Stream, error) {
	for {
		stream, err := createStream(ctx, js, cfg)
		if err == nil || !insufficient(err) || cfg.MaxBytes/2 < least {
			return stream, err
		}
		cfg.MaxBytes /= 2
	}
}

// insufficient tells that a server has no storage left to reserve.
func insufficient(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && strings.Contains(api.Description, "insufficient")
}

// incompatibleBucket names the first setting of an existing bucket that would
// lose what is in it, or "".
func incompatibleBucket(have, want jetstream.StreamConfig) string {
	switch {
	case want.Name != streamState && want.Name != streamModels:
		return ""
	case have.MaxAge > 0:
		return fmt.Sprintf("it drops what is older than %v", have.MaxAge)
	case have.Discard != jetstream.DiscardNew && (have.MaxBytes > 0 || have.MaxMsgs > 0):
		return "it discards the oldest values when full, must discard new ones"
	case want.Name == streamState && have.MaxMsgsPerSubject < 1:
		return "it is no key-value bucket: it keeps all values of a key"
	case want.Name == streamModels && have.MaxMsgsPerSubject > 0:
		return "it keeps only some parts of each file"
	case want.Name == streamModels && !have.AllowRollup:
		return "it is no object store: it denies roll-ups"
	}
	for _, subject := range want.Subjects {
		if !slices.Contains(have.Subjects, subject) {
			return fmt.Sprintf("subjects are %v, must hold %s", have.Subjects, subject)
		}
	}
	return ""
}
