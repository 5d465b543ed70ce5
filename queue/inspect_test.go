package queue

import (
	"context"
	"os"
	"strings"
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
)

func inspect(t *testing.T, conn ConnConfig, streams StreamsConfig) *Inspection {
	t.Helper()
	i, err := Inspect(jstest.Context(t), conn, streams)
	require.NoError(t, err)
	return i
}

// stream is the state of one stream.
func (i *Inspection) stream(t *testing.T, name string) StreamInspection {
	t.Helper()
	for _, s := range i.Streams {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no stream %s in %v", name, i.Streams)
	return StreamInspection{}
}

func TestInspectAServerBeforeAndAfterItsFirstService(t *testing.T) {
	t.Parallel()
	srv := jstest.Server(t, &server.Options{SyncAlways: true})
	cfg := testConfig(t)
	cfg.Conn.URL = srv.ClientURL()
	before := inspect(t, cfg.Conn, cfg.Streams)
	require.Equal(t, srv.ClientURL(), before.URL)
	require.Equal(t, server.VERSION, before.Version)
	require.Positive(t, before.RoundTrip)
	require.Positive(t, before.MaxPayload)
	require.NoError(t, before.JetStream)
	require.NoError(t, before.Permissions)
	require.Empty(t, before.Missing)
	require.Empty(t, before.Servers, "not exported to the account")
	require.Len(t, before.Streams, 7)
	for _, s := range before.Streams {
		require.ErrorIs(t, s.Err, jetstream.ErrStreamNotFound)
	}

	q := startQueue(t, cfg, scorerFunc(good))
	publish(t, q, "run", "", item("text"))
	awaitEmpty(t, q)
	after := inspect(t, cfg.Conn, cfg.Streams)
	for _, s := range after.Streams {
		require.NoError(t, s.Err)
		require.Equal(t, 1, s.Replicas)
		require.False(t, s.Leaderless)
	}
	require.EqualValues(t, 1, after.stream(t, StreamRewards).Messages)
	require.EqualValues(t, DefaultRewardsMaxBytes, after.stream(t, StreamRewards).MaxBytes)
	require.Less(t, after.Ahead.Abs(), time.Second)
}

func TestInspectFindsWhatPreventsTheStart(t *testing.T) {
	t.Parallel()
	t.Run("no JetStream", func(t *testing.T) {
		t.Parallel()
		srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
		require.NoError(t, err)
		srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		require.True(t, srv.ReadyForConnections(jstest.Timeout))
		i := inspect(t, ConnConfig{URL: srv.ClientURL()}, StreamsConfig{})
		require.ErrorIs(t, i.JetStream, jetstream.ErrJetStreamNotEnabled)
		require.Empty(t, i.Streams)
	})
	t.Run("incompatible stream", func(t *testing.T) {
		t.Parallel()
		nc, jet := jstest.Connect(t, &server.Options{})
		_, err := jet.CreateStream(t.Context(), jetstream.StreamConfig{Name: StreamRewards, Subjects: []string{SubjectRewards + ".>"}, Storage: jetstream.MemoryStorage})
		require.NoError(t, err)
		i := inspect(t, ConnConfig{URL: nc.ConnectedUrl()}, StreamsConfig{})
		require.ErrorIs(t, i.stream(t, StreamRewards).Err, ErrIncompatibleStream)
		require.ErrorContains(t, i.stream(t, StreamRewards).Err, "storage is memory")
	})
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := Inspect(ctx, ConnConfig{URL: "nats://127.0.0.1:1"}, StreamsConfig{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A user with the required permissions can do everything that assay does; without one of
// them, Inspect names it.
func TestRequiredPermissionsAreEnoughAndNamed(t *testing.T) {
	t.Parallel()
	streams := StreamsConfig{KeepScored: time.Hour}
	need := streams.requiredPermissions()
	with := func(publish []string, responses bool) *server.Permissions {
		p := &server.Permissions{Publish: &server.SubjectPermission{Allow: append([]string{subjectUser, subjectServers}, publish...)},
			Subscribe: &server.SubjectPermission{Allow: need.subscribe}}
		if responses {
			p.Response = &server.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
		}
		return p
	}
	start := func(t *testing.T, p *server.Permissions) string {
		srv := jstest.Server(t, &server.Options{SyncAlways: true, Users: []*server.User{
			{Username: "assay", Password: "assay", Permissions: p}, {Username: "app", Password: "app"},
		}})
		return srv.Addr().String()
	}

	address := start(t, with(need.publish, true))
	cfg := testConfig(t)
	cfg.Conn, cfg.Streams = ConnConfig{URL: "nats://assay:assay@" + address}, streams
	allowed := hook(func(message string) {
		if message == "NATS" || strings.Contains(message, "NATS error") {
			t.Error("assay may not do what it does")
		}
	})
	q, err := Open(t.Context(), cfg, zerolog.New(os.Stderr).Level(zerolog.WarnLevel).Hook(allowed), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { closeQueue(t, q) })
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	app, err := nats.Connect("nats://app:app@" + address)
	require.NoError(t, err)
	t.Cleanup(app.Close)
	jet := jstest.JetStream(t, app)
	for _, body := range []string{item("text"), `{"response":7}`} { // a reward and a dead letter
		_, err := jet.Publish(t.Context(), SubjectResponses+".run7", []byte(body))
		require.NoError(t, err)
	}
	_, err = NewClient(app).Score(jstest.Context(t), request("hello"))
	require.NoError(t, err)
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(jet, StreamDead))
	labelsWork(t, q)
	registryWorks(t, q)
	require.NoError(t, q.Ready(jstest.Context(t)))
	require.Empty(t, inspect(t, cfg.Conn, streams).Missing)

	t.Run("one is missing", func(t *testing.T) {
		t.Parallel()
		address := start(t, with(need.publish[1:], false))
		i := inspect(t, ConnConfig{URL: "nats://assay:assay@" + address}, streams)
		require.NoError(t, i.Permissions)
		require.Equal(t, []string{"publish " + need.publish[0], "allow_responses"}, i.Missing)
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		address := start(t, &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$SYS.>"}}})
		i := inspect(t, ConnConfig{URL: "nats://assay:assay@" + address}, streams)
		require.Error(t, i.Permissions)
		require.Empty(t, i.Missing)
		require.NoError(t, i.JetStream)
	})
}

func TestInspectOnKubernetes(t *testing.T) {
	t.Parallel()
	r := restrict(t)
	conn, streams := ConnConfig{URL: r.url, NKey: r.seeds["ASSAY_NKEY"]}, StreamsConfig{KeepScored: time.Hour}
	i := inspect(t, conn, streams)
	require.NoError(t, i.Permissions)
	require.Empty(t, i.Missing)
	require.Len(t, i.Servers, 1)
	require.True(t, i.Servers[0].Always)
	require.ErrorIs(t, i.stream(t, labels.StreamFeedback).Err, jetstream.ErrStreamNotFound)
}
