package queue

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/registry"
)

func ensure(t *testing.T, nc *nats.Conn, jet jetstream.JetStream, cfg StreamsConfig) error {
	return ensureStreams(t.Context(), jet, cfg, nc.MaxPayload(), zerolog.Nop())
}

func TestStreamsAreCreatedOnceAndOnlyGrow(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{})
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{}))
	first := jstest.StreamConfig(t, jet, StreamRewards)
	require.Equal(t, DefaultRewardsMaxAge, first.MaxAge)
	require.EqualValues(t, DefaultRewardsMaxBytes, first.MaxBytes)
	require.Equal(t, DefaultDuplicateWindow, first.Duplicates)
	require.Equal(t, jetstream.WorkQueuePolicy, jstest.StreamConfig(t, jet, StreamResponses).Retention)
	require.Equal(t, jetstream.DiscardNew, jstest.StreamConfig(t, jet, StreamResponses).Discard)

	require.NoError(t, ensure(t, nc, jet, StreamsConfig{}))
	require.Equal(t, first, jstest.StreamConfig(t, jet, StreamRewards), "nothing changes")

	require.NoError(t, ensure(t, nc, jet, StreamsConfig{RewardsMaxBytes: 2 << 30, RewardsMaxAge: time.Hour}))
	grown := jstest.StreamConfig(t, jet, StreamRewards)
	require.EqualValues(t, 2<<30, grown.MaxBytes)
	require.Equal(t, first.MaxAge, grown.MaxAge, "not shrunk")

	// Settings of an operator are kept.
	grown.MaxBytes, grown.MaxAge, grown.Duplicates = 3<<20, 0, time.Minute
	_, err := jet.UpdateStream(t.Context(), grown)
	require.NoError(t, err)
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{RewardsMaxAge: time.Hour}))
	require.EqualValues(t, 3<<20, jstest.StreamConfig(t, jet, StreamRewards).MaxBytes)
	require.Zero(t, jstest.StreamConfig(t, jet, StreamRewards).MaxAge)
}

// Earlier versions let any server of a cluster answer reads of labels.
func TestLabelsAreReadFromTheLeader(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{})
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{}))
	records := jstest.StreamConfig(t, jet, labels.StreamFeedback)
	require.False(t, records.AllowDirect)
	records.AllowDirect = true
	_, err := jet.UpdateStream(t.Context(), records)
	require.NoError(t, err)
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{}))
	require.False(t, jstest.StreamConfig(t, jet, labels.StreamFeedback).AllowDirect)
}

func TestShortAgesShortenTheWindow(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{})
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{RewardsMaxAge: time.Minute}))
	require.Equal(t, time.Minute, jstest.StreamConfig(t, jet, StreamDead).Duplicates)
}

func TestIncompatibleStreamsAreRejectedUnchanged(t *testing.T) {
	t.Parallel()
	responses := jetstream.StreamConfig{Name: StreamResponses, Subjects: []string{SubjectResponses + ".>"}, Retention: jetstream.WorkQueuePolicy}
	for name, tc := range map[string]struct {
		change func(*jetstream.StreamConfig)
		says   string
	}{
		"retention": {func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }, "retention is Limits"},
		"memory":    {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "must be file"},
		"subjects":  {func(c *jetstream.StreamConfig) { c.Subjects = []string{"other"} }, "must include assay.v1.responses.>"},
		"age":       {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "by age"},
		"discard":   {func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }, "discards the oldest"},
	} {
		t.Run(name, func(t *testing.T) {
			nc, jet := jstest.Connect(t, &server.Options{})
			cfg := responses
			tc.change(&cfg)
			_, err := jet.CreateStream(t.Context(), cfg)
			require.NoError(t, err)
			_, err = jet.Publish(t.Context(), cfg.Subjects[0][:len(cfg.Subjects[0])-1]+"r", []byte("kept"))
			require.NoError(t, err)
			before := jstest.StreamConfig(t, jet, StreamResponses)
			err = ensure(t, nc, jet, StreamsConfig{})
			require.ErrorIs(t, err, ErrIncompatibleStream)
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, before, jstest.StreamConfig(t, jet, StreamResponses))
		})
	}
}

func TestServersWithoutWhatStreamsNeed(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{JetStreamMaxStore: 1 << 20})
	require.ErrorContains(t, ensure(t, nc, jet, StreamsConfig{}), "give JetStream more storage")

	cfg := testConfig(t)
	plain, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	plain.Start()
	defer plain.WaitForShutdown()
	defer plain.Shutdown()
	require.True(t, plain.ReadyForConnections(jstest.Timeout))
	cfg.Conn.URL = plain.ClientURL()
	_, err = Open(t.Context(), cfg, zerolog.Nop(), prometheus.NewRegistry())
	require.ErrorContains(t, err, "JetStream")
	require.ErrorContains(t, err, "-js")
}

// A server with small limits works; a dead letter has the start of a larger response.
func TestDeadLettersOfASmallServer(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{MaxPayload: 32 << 10})
	_, err := jet.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: StreamResponses, Subjects: []string{SubjectResponses + ".>"}, Retention: jetstream.WorkQueuePolicy})
	require.NoError(t, err)
	cfg := testConfig(t)
	cfg.Conn.URL = nc.ConnectedUrl()
	q := startQueue(t, cfg, scorerFunc(good))
	publish(t, q, "x", "1", string(make([]byte, 30<<10)))
	awaitEmpty(t, q)
	letters := jstest.Messages(t, q.js, StreamDead)
	require.Len(t, letters, 1)
	require.Len(t, letters[0].Data, 16<<10)
	require.Equal(t, "30720", letters[0].Header.Get("Assay-Truncated"))
}

// A stream of an earlier release gets batches if the server supports them.
func TestAnExistingStreamGetsBatches(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{})
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{KeepScored: DefaultDuplicateWindow}))
	require.False(t, jstest.StreamConfig(t, jet, labels.StreamFeedback).AllowAtomicPublish)
	cfg := testConfig(t)
	cfg.Streams.KeepScored = DefaultDuplicateWindow
	cfg.Conn.URL = nc.ConnectedUrl()
	q := openQueue(t, cfg)
	require.True(t, jstest.StreamConfig(t, jet, labels.StreamFeedback).AllowAtomicPublish)
	require.Equal(t, jetstream.DefaultPersistMode, jstest.StreamConfig(t, jet, labels.StreamScored).PersistMode, "it cannot be changed")
	labelstest.Accepts(t, q.Labels(), 100, 0, labelstest.Some(0, 100)...)
	batches := map[string]bool{}
	for _, msg := range jstest.Messages(t, q.js, labels.StreamFeedback) {
		batches[msg.Header.Get("Nats-Batch-Id")] = true
	}
	require.Len(t, batches, 1)
	require.NotContains(t, batches, "")
}

// A stream that acknowledges before it writes is rejected, except that of scored
// responses, which is configured so and has one copy.
func TestAsynchronousStreams(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{})
	cfg := StreamsConfig{KeepScored: DefaultDuplicateWindow, apiLevel2: true}
	require.NoError(t, ensure(t, nc, jet, cfg))
	require.Equal(t, jetstream.AsyncPersistMode, jstest.StreamConfig(t, jet, labels.StreamScored).PersistMode)
	next, _ := enlarge(jstest.StreamConfig(t, jet, labels.StreamScored), jetstream.StreamConfig{Replicas: 3})
	require.Zero(t, next.replicas)
	cfg.apiLevel2 = false
	require.NoError(t, ensure(t, nc, jet, cfg), "connected to an older server of a cluster")
	cfg.apiLevel2, cfg.Replicas = true, 3
	for _, want := range cfg.streams(nc.MaxPayload()) {
		require.Empty(t, incompatible(jstest.StreamConfig(t, jet, want.Name), want), want.Name)
	}
	cfg.Replicas = 0

	require.NoError(t, jet.DeleteStream(t.Context(), StreamRewards))
	_, err := jet.CreateStream(t.Context(), jetstream.StreamConfig{Name: StreamRewards, Subjects: []string{SubjectRewards + ".>"},
		PersistMode: jetstream.AsyncPersistMode})
	require.NoError(t, err)
	err = ensure(t, nc, jet, cfg)
	require.ErrorIs(t, err, ErrIncompatibleStream)
	require.ErrorContains(t, err, "persist_mode")
}

func TestModelsShrinkToFit(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{JetStreamMaxStore: 8 << 30})
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{}))
	size := jstest.StreamConfig(t, jet, registry.StreamModels).MaxBytes
	require.Less(t, size, int64(DefaultModelsMaxBytes))
	require.GreaterOrEqual(t, size, int64(minModelsBytes))
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{}), "again")

	nc, jet = jstest.Connect(t, &server.Options{JetStreamMaxStore: 8 << 30})
	require.ErrorContains(t, ensure(t, nc, jet, StreamsConfig{ModelsMaxBytes: DefaultModelsMaxBytes}), "give JetStream more storage")
}

func TestIncompatibleBuckets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		create func(context.Context, jetstream.JetStream) error
		says   string
	}{
		"state with TTL": {func(ctx context.Context, jet jetstream.JetStream) error {
			_, err := jet.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: registry.BucketState, TTL: time.Hour})
			return err
		}, "KV_ASSAY_STATE: it drops what is older"},
		"models with TTL": {func(ctx context.Context, jet jetstream.JetStream) error {
			_, err := jet.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: registry.BucketModels, TTL: time.Hour})
			return err
		}, "OBJ_ASSAY_MODELS: it drops what is older"},
		"memory": {func(ctx context.Context, jet jetstream.JetStream) error {
			_, err := jet.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: registry.BucketState, Storage: jetstream.MemoryStorage})
			return err
		}, "must be file"},
		"events": {func(ctx context.Context, jet jetstream.JetStream) error {
			_, err := jet.CreateStream(ctx, jetstream.StreamConfig{Name: registry.StreamEvents, Subjects: []string{"other"}})
			return err
		}, "must include assay.v1.events.>"},
	} {
		t.Run(name, func(t *testing.T) {
			nc, jet := jstest.Connect(t, &server.Options{})
			require.NoError(t, tc.create(t.Context(), jet))
			err := ensure(t, nc, jet, StreamsConfig{})
			require.ErrorIs(t, err, ErrIncompatibleStream)
			require.ErrorContains(t, err, tc.says)
		})
	}
	// Buckets that an operator created with the NATS CLI are accepted.
	nc, jet := jstest.Connect(t, &server.Options{})
	_, err := jet.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: registry.BucketState})
	require.NoError(t, err)
	_, err = jet.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: registry.BucketModels})
	require.NoError(t, err)
	require.NoError(t, ensure(t, nc, jet, StreamsConfig{}))
}

func TestReadyNeedsTheBuckets(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := startQueue(t, testConfig(t), scorerFunc(good))
	for _, name := range []string{registry.StreamModels, registry.StreamState, registry.StreamEvents} {
		require.NoError(t, q.Ready(ctx))
		cfg := jstest.StreamConfig(t, q.js, name)
		require.NoError(t, q.js.DeleteStream(ctx, name))
		require.ErrorContains(t, q.Ready(ctx), name)
		_, err := q.js.CreateStream(ctx, cfg)
		require.NoError(t, err)
	}
}

func TestAPILevelOfAServer(t *testing.T) {
	for version, has := range map[string]bool{"2.15.2": true, "2.12.0-RC.1": true, "3.0.0": true, "2.11.9": false, "2.9.0": false, "1.99.0": false, "": false, "x": false} {
		require.Equal(t, has, hasAPILevel2(version), version)
	}
}
