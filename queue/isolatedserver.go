package queue

import (
	"context"
	"time"

	"assay/queue/internal/js"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

const (
	leaderCheck   = 2 * time.Second  // between checks, and the timeout of one
	leaderlessFor = 10 * time.Second // a usual election is over by then
	// maxLeaderless is the time with one server while none of the servers has a leader; it starts at leaderlessFor and
	// doubles with each change.
	maxLeaderless = 2 * time.Minute
)

// leaveIsolatedServers connects nc to another server of its cluster when JetStream has no leader at this one, until ctx
// ends: a server that is cut off from the others keeps its clients, and a client library changes its server only when the
// connection fails. It does nothing before JetStream has replied once, since a user may lack the permission to ask; replied
// reports whether it has.
func leaveIsolatedServers(ctx context.Context, nc *nats.Conn, jet jetstream.JetStream, replied bool, log zerolog.Logger) {
	var (
		since time.Time // of the first failure in a row; zero: none
		limit = leaderlessFor
	)
	for js.Sleep(ctx, leaderCheck); ctx.Err() == nil; js.Sleep(ctx, leaderCheck) {
		if nc.Status() != nats.CONNECTED || len(nc.Servers()) < 2 {
			since = time.Time{}
			continue
		}
		err := askLeader(ctx, jet)
		switch {
		case !js.Leaderless(err):
			since = time.Time{}
			if err == nil {
				replied, limit = true, leaderlessFor
			}
		case !replied || ctx.Err() != nil:
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= limit:
			log.Warn().Err(err).Str("server", nc.ConnectedUrlRedacted()).
				Msg("JetStream has no leader at this NATS server, which may be cut off from the others; connecting to another")
			if err := nc.ForceReconnect(); err != nil {
				return // closed
			}
			since, limit = time.Time{}, min(2*limit, maxLeaderless)
		}
	}
}

// askLeader sends a request to which only the leader of JetStream replies.
func askLeader(ctx context.Context, jet jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, leaderCheck)
	defer cancel()
	_, err := jet.AccountInfo(ctx)
	return err
}
