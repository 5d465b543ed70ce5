package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func jetStream(t *testing.T, opts *server.Options) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	srv := external(t, opts)
	nc, err := nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return nc, js
}

func ensure(t *testing.T, nc *nats.Conn, js jetstream.JetStream, cfg StreamsConfig) error {
	return ensureStreams(t.Context(), js, cfg, nc.MaxPayload(), zerolog.Nop())
}

func config(t *testing.T, js jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	return s.CachedInfo().Config
}

func TestStreamsAreCreatedOnceAndOnlyGrow(t *testing.T) {
	t.Parallel()
	nc, js := jetStream(t, &server.Options{})
	require.NoError(t, ensure(t, nc, js, StreamsConfig{}))
	first := config(t, js, StreamRewards)
	require.Equal(t, DefaultRewardsMaxAge, first.MaxAge)
	require.EqualValues(t, DefaultRewardsMaxBytes, first.MaxBytes)
	require.Equal(t, DefaultDuplicateWindow, first.Duplicates)
	require.Equal(t, jetstream.WorkQueuePolicy, config(t, js, StreamResponses).Retention)
	require.Equal(t, jetstream.DiscardNew, config(t, js, StreamResponses).Discard)

	require.NoError(t, ensure(t, nc, js, StreamsConfig{}))
	require.Equal(t, first, config(t, js, StreamRewards), "nothing changes")

	require.NoError(t, ensure(t, nc, js, StreamsConfig{RewardsMaxBytes: 2 << 30, RewardsMaxAge: time.Hour}))
	grown := config(t, js, StreamRewards)
	require.EqualValues(t, 2<<30, grown.MaxBytes)
	require.Equal(t, first.MaxAge, grown.MaxAge, "not shrunk")

	// What an operator set stays.
	grown.MaxBytes, grown.MaxAge, grown.Duplicates = 3<<20, 0, time.Minute
	_, err := js.UpdateStream(t.Context(), grown)
	require.NoError(t, err)
	require.NoError(t, ensure(t, nc, js, StreamsConfig{RewardsMaxAge: time.Hour}))
	require.EqualValues(t, 3<<20, config(t, js, StreamRewards).MaxBytes)
	require.Zero(t, config(t, js, StreamRewards).MaxAge)
}

func TestShortAgesShortenTheWindow(t *testing.T) {
	t.Parallel()
	nc, js := jetStream(t, &server.Options{})
	require.NoError(t, ensure(t, nc, js, StreamsConfig{RewardsMaxAge: time.Minute}))
	require.Equal(t, time.Minute, config(t, js, StreamDead).Duplicates)
}

func TestIncompatibleStreamsAreRefusedAndLeft(t *testing.T) {
	t.Parallel()
	responses := jetstream.StreamConfig{Name: StreamResponses, Subjects: []string{SubjectResponses + ".>"}, Retention: jetstream.WorkQueuePolicy}
	for name, tc := range map[string]struct {
		change func(*jetstream.StreamConfig)
		says   string
	}{
		"retention": {func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }, "retention is Limits"},
		"memory":    {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "must be file"},
		"subjects":  {func(c *jetstream.StreamConfig) { c.Subjects = []string{"other"} }, "must hold assay.v1.responses.>"},
		"age":       {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "by age"},
		"discard":   {func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }, "discards the oldest"},
	} {
		t.Run(name, func(t *testing.T) {
			nc, js := jetStream(t, &server.Options{})
			cfg := responses
			tc.change(&cfg)
			_, err := js.CreateStream(t.Context(), cfg)
			require.NoError(t, err)
			_, err = js.Publish(t.Context(), cfg.Subjects[0][:len(cfg.Subjects[0])-1]+"r", []byte("kept"))
			require.NoError(t, err)
			before := config(t, js, StreamResponses)
			err = ensure(t, nc, js, StreamsConfig{})
			require.ErrorIs(t, err, ErrIncompatibleStream)
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, before, config(t, js, StreamResponses))
		})
	}
}

func TestServersWithoutWhatStreamsNeed(t *testing.T) {
	t.Parallel()
	nc, js := jetStream(t, &server.Options{JetStreamMaxStore: 1 << 20})
	require.ErrorContains(t, ensure(t, nc, js, StreamsConfig{}), "give JetStream more storage")

	cfg := testConfig(t)
	plain, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	plain.Start()
	defer plain.WaitForShutdown()
	defer plain.Shutdown()
	require.True(t, plain.ReadyForConnections(patience))
	cfg.Conn.URL = plain.ClientURL()
	_, err = Open(t.Context(), cfg, zerolog.Nop(), prometheus.NewRegistry())
	require.ErrorContains(t, err, "JetStream")
	require.ErrorContains(t, err, "-js")
}

// A small server takes what it can; the head of a response tells what it was.
func TestDeadLettersOfASmallServer(t *testing.T) {
	t.Parallel()
	nc, js := jetStream(t, &server.Options{MaxPayload: 32 << 10})
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: StreamResponses, Subjects: []string{SubjectResponses + ".>"}, Retention: jetstream.WorkQueuePolicy})
	require.NoError(t, err)
	cfg := testConfig(t)
	cfg.Conn.URL = nc.ConnectedUrl()
	q := startQueue(t, cfg, scorerFunc(good))
	publish(t, q, "x", "1", string(make([]byte, 30<<10)))
	settled(t, q)
	letters := stored(t, q, StreamDead)
	require.Len(t, letters, 1)
	require.Len(t, letters[0].Data, 16<<10)
	require.Equal(t, "30720", letters[0].Header.Get("Assay-Truncated"))
}
