package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

const (
	dialWait    = 2 * time.Second // between attempts, and between reconnects
	dialTimeout = 5 * time.Second // of one attempt

	// A network that swallows what is sent closes no connection. One whose
	// server leaves pingsOut pings without an answer is taken for dead: after
	// 4 to 6 seconds, where the library's defaults take as many minutes.
	pingEvery = 2 * time.Second
	pingsOut  = 2
)

// ConnConfig describes a connection to an external NATS server or cluster.
// URL is required; files that are named must exist.
type ConnConfig struct {
	URL   string // nats:// or tls:// (comma-separated for a cluster), with user:password@ if need be
	Creds string // --nats-creds: a JWT credentials file
	NKey  string // --nats-nkey: a seed file
	Token string // --nats-token
	// ReadToken, if any, returns the token for each connection in its place, "" for
	// none: one that the server changes.
	ReadToken func() string
	CA        string // --nats-ca: PEM file of the authorities that sign the server's certificate
	Cert      string // --nats-cert, --nats-key: PEM files of the client's certificate
	Key       string
	// Domain (--nats-jetstream-domain) is that of the JetStream to use, where the
	// server has another of its own, as a leaf node may.
	Domain string
	Name   string // of the connection, as the server lists it; "assay" when empty

	inProcess nats.InProcessConnProvider
}

// Connect connects to an external server. A server that cannot be reached is
// tried again until ctx ends; one that refuses us is an error at once. Once
// connected, a lost connection is taken up again for ever, with a log line at
// each turn, and whatever is in flight is redelivered or published again.
func Connect(ctx context.Context, cfg ConnConfig, log zerolog.Logger) (*nats.Conn, error) {
	if cfg.URL == "" {
		return nil, errors.New("--nats-url is empty; write nats://HOST:4222, or leave it out for the embedded server")
	}
	if (cfg.Cert == "") != (cfg.Key == "") {
		return nil, errors.New("--nats-cert and --nats-key: give both or none")
	}
	return cfg.dial(ctx, log)
}

func (c ConnConfig) dial(ctx context.Context, log zerolog.Logger) (*nats.Conn, error) {
	opts, err := c.options(log)
	if err != nil {
		return nil, err
	}
	for {
		nc, err := nats.Connect(c.URL, opts...)
		if err == nil {
			log.Info().Str("server", c.server(nc)).Msg("connected to NATS")
			return nc, nil
		}
		if !transient(err) {
			return nil, fmt.Errorf("--nats-url: %w", err)
		}
		log.Warn().Err(err).Dur("retry_in", dialWait).Msg("cannot reach NATS")
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("--nats-url: %w (last attempt: %w)", context.Cause(ctx), err)
		case <-time.After(dialWait):
		}
	}
}

// server is where nc leads. The client knows no address of a server that it
// reaches without a socket and would name its default one.
func (c ConnConfig) server(nc *nats.Conn) string {
	if c.inProcess != nil {
		return "in this process"
	}
	return nc.ConnectedUrlRedacted()
}

// transient reports whether err may go away by itself: the server is not there
// yet, as when pods start in any order.
func transient(err error) bool {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "remote error" || errors.Is(err, nats.ErrTLS) {
		return false // a TLS alert: we are there, and not wanted
	}
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || network != nil
}

func (c ConnConfig) options(log zerolog.Logger) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(cmp.Or(c.Name, "assay")),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // credentials are rotated while we run
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsOut),
		// What cannot be sent now fails now. A buffer would be sent whenever the
		// connection is back: a reward, after its duplicate window has gone by,
		// that another process gave meanwhile.
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(dialWait),
		nats.ReconnectJitter(dialWait/4, dialWait/4),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil when we close
				log.Warn().Err(err).Msg("lost the connection to NATS; reconnecting")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info().Str("server", c.server(nc)).Msg("reconnected to NATS")
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			event := log.Error().Err(err)
			if sub != nil {
				event = event.Str("subject", sub.Subject)
			}
			event.Msg("NATS")
		}),
	}
	if c.inProcess != nil {
		opts = append(opts, nats.InProcessServer(c.inProcess))
	}
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.NKey != "" {
		nkey, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("--nats-nkey %s: %w", c.NKey, err)
		}
		opts = append(opts, nkey)
	}
	if c.Token != "" {
		opts = append(opts, nats.Token(c.Token))
	}
	if c.ReadToken != nil {
		opts = append(opts, nats.TokenHandler(c.ReadToken))
	}
	if c.CA != "" {
		opts = append(opts, nats.RootCAs(c.CA))
	}
	if c.Cert != "" {
		opts = append(opts, nats.ClientCert(c.Cert, c.Key))
	}
	return opts, nil
}

// drain closes nc after what it holds is written, or when ctx ends.
func drain(ctx context.Context, nc *nats.Conn) error {
	closed := nc.StatusChanged(nats.CLOSED)
	if nc.Drain() != nil { // closed or reconnecting: there is nobody to write to
		nc.Close()
		return nil //nolint:nilerr // what was not acknowledged comes again
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		nc.Close()
		return fmt.Errorf("draining the NATS connection: %w", context.Cause(ctx))
	}
}
