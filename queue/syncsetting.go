package queue

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
)

// subjectServers is where each server of a cluster describes its JetStream. It
// belongs to the system account; operators may export it to that of assay.
const subjectServers = "$SYS.REQ.SERVER.PING.JSZ"

// serversTimeout bounds the wait for the first server, and the wait for the
// next one after each.
const serversTimeout = 500 * time.Millisecond

// serverSync is how a server syncs what it stores.
type serverSync struct {
	Server struct {
		Name string `json:"name"`
	} `json:"server"`
	Data struct {
		Disabled bool `json:"disabled"`
		Config   struct {
			Domain   string `json:"domain"`
			Always   bool   `json:"sync_always"`
			Interval int64  `json:"sync_interval"` // nanoseconds
		} `json:"config"`
	} `json:"data"`
}

// checkSync warns unless each server of JetStream reports that it syncs before it
// acknowledges. It asks by a connection of its own, since a server reports a
// missing permission as an error of the connection.
func checkSync(ctx context.Context, cfg ConnConfig, log zerolog.Logger) {
	servers, err := askSync(ctx, cfg)
	if err != nil {
		log.Debug().Err(err).Msg("asking the NATS servers for their settings")
	}
	for _, s := range servers {
		if !s.Data.Config.Always {
			log.Warn().Str("server", s.Server.Name).Stringer("sync_interval", time.Duration(s.Data.Config.Interval)).
				Msg("the NATS server acknowledges before it syncs: a power failure undoes what it acknowledged since its last sync; set jetstream { sync_interval: always } on each server (docs/nats.md)")
		}
	}
	if len(servers) == 0 {
		log.Warn().Msg("cannot see how the NATS servers sync: unless each has jetstream { sync_interval: always }, a power failure undoes up to 2 minutes of what they acknowledged (docs/nats.md says how to let assay see it)")
	}
}

// askSync returns the reports of the servers whose streams are those of assay: none
// where their answer is not exported to its account.
func askSync(ctx context.Context, cfg ConnConfig) ([]serverSync, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	nc, err := cfg.dial(ctx, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	inbox := nc.NewRespInbox()
	replies, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest(subjectServers, inbox, nil); err != nil {
		return nil, err
	}
	var servers []serverSync
	for {
		reply, err := replies.NextMsg(serversTimeout)
		if err != nil { // no more, or nobody is there
			return servers, nil //nolint:nilerr // what came is what there is
		}
		var s serverSync
		if err := json.Unmarshal(reply.Data, &s); err != nil || s.Data.Disabled {
			continue // "no responders", or a server without streams
		}
		if cfg.Domain == "" || s.Data.Config.Domain == cfg.Domain {
			servers = append(servers, s)
		}
	}
}
