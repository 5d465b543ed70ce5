package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

const (
	dialWait    = 2 * time.Second // between attempts, and between reconnects
	dialTimeout = 5 * time.Second // of one attempt

	// A network that drops packets closes no connection. One whose server leaves
	// maxPings pings without a reply counts as lost: after 4 to 6 seconds, where the
	// defaults of the library take as many minutes.
	pingInterval = 2 * time.Second
	maxPings     = 2
)

// ConnConfig configures the connection to an external NATS server or cluster. URL is
// required; the files must exist.
type ConnConfig struct {
	URL   string // nats:// or tls:// (comma-separated for a cluster), optionally with user:password@
	Creds string // a JWT credentials file
	NKey  string // a seed file
	Token string
	// ReadToken, if set, returns the token of each connection instead of Token, "" for
	// none: for a token that the server changes.
	ReadToken func() string
	CA        string // PEM file of the certificate authorities of the server
	Cert      string // PEM files of the client's certificate
	Key       string
	// Domain is the JetStream domain to use, if it is not that
	// of the server, which may be a leaf node.
	Domain string
	Name   string // of the connection, as the server lists it; "assay" when empty

	inProcess nats.InProcessConnProvider
}

// Connect connects to an external server. It retries until ctx ends if the server cannot
// be reached, and returns an error immediately if the server refuses the connection. Later
// the client reconnects after each loss of the connection, without a limit, and logs it;
// what is in flight is delivered or published again.
func Connect(ctx context.Context, cfg ConnConfig, log zerolog.Logger) (*nats.Conn, error) {
	if cfg.URL == "" {
		return nil, &SettingError{"URL", errors.New("it is empty; set nats://HOST:4222, or omit it for the embedded server")}
	}
	if (cfg.Cert == "") != (cfg.Key == "") {
		return nil, &SettingError{"Cert", errors.New("set both the certificate and its key, or none")}
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
		if _, ok := errors.AsType[*url.Error](err); ok { // which has the URL, and that may have a password
			err = errors.New("not a valid URL; escape special characters of its user and password (%2F for a slash)")
		}
		if !transient(err) {
			return nil, &SettingError{"URL", err}
		}
		log.Warn().Err(err).Dur("retry_in", dialWait).Msg("cannot reach NATS")
		select {
		case <-ctx.Done():
			return nil, &SettingError{"URL", fmt.Errorf("%w (last attempt: %w)", context.Cause(ctx), err)}
		case <-time.After(dialWait):
		}
	}
}

// server returns the server of nc. The client does not know the address of a server that
// it reaches without a socket, and would return the default address.
func (c ConnConfig) server(nc *nats.Conn) string {
	if c.inProcess != nil {
		return "in this process"
	}
	return nc.ConnectedUrlRedacted()
}

// transient reports whether err may be transient: the server has not started yet, as
// when pods start in any order.
func transient(err error) bool {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "remote error" || errors.Is(err, nats.ErrTLS) {
		return false // a TLS alert: the server was reached, and refused
	}
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || network != nil
}

func (c ConnConfig) options(log zerolog.Logger) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(cmp.Or(c.Name, "assay")),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // credentials may be rotated
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings),
		// What cannot be sent now fails now. A buffer would be sent when the
		// connection is back: possibly a reward, after its duplicate window, that
		// another process has stored in the meantime.
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(dialWait),
		nats.ReconnectJitter(dialWait/4, dialWait/4),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil after Close
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
			event.Msg("NATS error")
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
			return nil, &SettingError{"NKey", fmt.Errorf("%s: %w", c.NKey, err)}
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

// drain closes nc after it is flushed, or when ctx ends.
func drain(ctx context.Context, nc *nats.Conn) error {
	closed := nc.StatusChanged(nats.CLOSED)
	if nc.Drain() != nil { // closed or reconnecting: there is no server to flush to
		nc.Close()
		return nil //nolint:nilerr // what was not acknowledged is delivered again
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		nc.Close()
		return fmt.Errorf("draining the NATS connection: %w", context.Cause(ctx))
	}
}
