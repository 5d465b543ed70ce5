package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"assay/queue/internal/js"
)

// inspectTimeout bounds one request of Inspect: the server does not reply to a request that
// it does not permit.
const inspectTimeout = 2 * time.Second

// Inspection is the state of an external NATS server as Inspect finds it.
type Inspection struct {
	URL        string // of the connection, without credentials
	Version    string // of nats-server
	RoundTrip  time.Duration
	MaxPayload int64 // bytes of one message
	JetStream  error // why JetStream cannot be used, or nil
	// Missing are the permissions that assay needs and its user does not have, as "publish
	// SUBJECT", "subscribe SUBJECT [QUEUE]" or "allow_responses".
	Missing []string
	// Permissions is why Missing is unknown, or nil.
	Permissions error
	Streams     []StreamInspection // nil if JetStream cannot be used
	// Ahead is how far the clock of the server is ahead of the clock of this process; 0 if the
	// difference is within the round trip, or if no stream exists yet.
	Ahead   time.Duration
	Servers []ServerSync // nil if the servers do not report how they sync
}

// StreamInspection is the state of one stream.
type StreamInspection struct {
	Name string
	// Err is nil, why the state is unknown, jetstream.ErrStreamNotFound for a stream that a
	// service creates at its start, or wraps ErrIncompatibleStream.
	Err             error
	Messages        uint64
	Lost            int   // messages that the server says that it has lost since its start, of a damaged file
	Bytes, MaxBytes int64 // MaxBytes is 0 or less without a limit
	RejectsWhenFull bool  // otherwise it removes its oldest messages
	Replicas        int
	Leaderless      bool
	Behind          []string // servers whose copy is offline or not current
}

// ServerSync is how a server syncs the streams that it stores.
type ServerSync struct {
	Name     string
	Always   bool          // before it acknowledges
	Interval time.Duration // between syncs, without Always
}

// Inspect connects to the external server of a service and reads its state, without
// changing anything. It returns an error if it cannot connect until ctx ends.
func Inspect(ctx context.Context, conn ConnConfig, streams StreamsConfig) (*Inspection, error) {
	nc, err := Connect(ctx, conn, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	i := &Inspection{URL: nc.ConnectedUrlRedacted(), Version: nc.ConnectedServerVersion(), MaxPayload: nc.MaxPayload()}
	if i.RoundTrip, err = nc.RTT(); err != nil {
		return nil, &SettingError{"URL", err}
	}
	i.readPermissions(ctx, nc, conn.Domain, streams)
	jet, err := js.New(nc, conn.Domain)
	if err == nil {
		err = within(ctx, func(ctx context.Context) error {
			_, err := jet.AccountInfo(ctx)
			return js.Explain(err)
		})
	}
	if i.JetStream = err; err != nil {
		return i, nil
	}
	var clock js.Clock
	streams.apiLevel2 = hasAPILevel2(i.Version)
	for _, want := range streams.withDefaults().streams(i.MaxPayload) {
		s := inspectStream(ctx, jet, want, &clock)
		if s.Messages > 0 {
			s.Lost = lost(ctx, nc, conn.Domain, s.Name)
		}
		i.Streams = append(i.Streams, s)
	}
	now := time.Now()
	i.Ahead = now.Sub(clock.Local(now))
	servers, _ := askSync(ctx, conn) // an error leaves them unknown
	for _, s := range servers {
		i.Servers = append(i.Servers, ServerSync{Name: s.Server.Name, Always: s.Data.Config.Always, Interval: time.Duration(s.Data.Config.Interval)})
	}
	return i, nil
}

// readPermissions compares the permissions of the user with those that assay needs.
func (i *Inspection) readPermissions(ctx context.Context, nc *nats.Conn, domain string, streams StreamsConfig) {
	if domain != "" {
		i.Permissions = errors.New("behind a leaf node, the permissions of its remote apply, which a client cannot read")
		return
	}
	i.Permissions = within(ctx, func(ctx context.Context) error {
		user, err := readPermissions(ctx, nc)
		i.Missing = user.missing(streams.requiredPermissions())
		return err
	})
}

// inspectStream reads the state of a stream, and the clock of the server.
func inspectStream(ctx context.Context, jet jetstream.JetStream, want jetstream.StreamConfig, clock *js.Clock) StreamInspection {
	s := StreamInspection{Name: want.Name}
	s.Err = within(ctx, func(ctx context.Context) error {
		requested := time.Now()
		stream, err := jet.Stream(ctx, want.Name)
		if err != nil {
			return err
		}
		info := stream.CachedInfo()
		clock.Observe(info.TimeStamp, requested, time.Now())
		s.read(info)
		if why := incompatible(info.Config, want); why != "" {
			return fmt.Errorf("%w: %s", ErrIncompatibleStream, why)
		}
		return nil
	})
	return s
}

// lost returns the number of messages that the server has lost, 0 if it does not reply.
func lost(ctx context.Context, nc *nats.Conn, domain, stream string) (n int) {
	_ = within(ctx, func(ctx context.Context) error {
		sequences, err := js.ReportLost(ctx, nc, domain, stream, nil)
		n = len(sequences)
		return err
	})
	return n
}

func (s *StreamInspection) read(info *jetstream.StreamInfo) {
	s.Messages, s.Bytes, s.MaxBytes, s.Replicas = info.State.Msgs, int64(info.State.Bytes), info.Config.MaxBytes, info.Config.Replicas
	s.RejectsWhenFull = info.Config.Discard == jetstream.DiscardNew
	if info.Cluster == nil {
		return
	}
	s.Leaderless = info.Cluster.Leader == ""
	for _, peer := range info.Cluster.Replicas {
		if peer.Offline || !peer.Current {
			s.Behind = append(s.Behind, peer.Name)
		}
	}
}

// within runs f with inspectTimeout.
func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return f(ctx)
}
