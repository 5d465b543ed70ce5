package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/queue"
	"assay/sidecar/proxy"
)

// verdictPublisher publishes the verdicts of a proxy on NATS. The proxy serves without
// waiting for the server, and whatever happens to it.
type verdictPublisher struct {
	config queue.ConnConfig
	log    zerolog.Logger
	conn   atomic.Pointer[nats.Conn] // nil until the server was reached
}

var errNoNATS = errors.New("the NATS server was not reached yet")

// refusedWait is the time to the next attempt after the server refused the connection.
const refusedWait = 10 * time.Second

// connect connects, unless ctx ends first.
func (v *verdictPublisher) connect(ctx context.Context) {
	for ctx.Err() == nil {
		nc, err := queue.Connect(ctx, v.config, v.log)
		if err == nil {
			v.conn.Store(nc)
			return
		}
		if ctx.Err() == nil {
			v.log.Error().Err(err).Dur("retry_in", refusedWait).Msg("--nats-url: verdicts are not published")
		}
		select {
		case <-ctx.Done():
		case <-time.After(refusedWait):
		}
	}
}

// publish is a proxy.Publisher.
func (v *verdictPublisher) publish(p proxy.Publication) error {
	nc := v.conn.Load()
	if nc == nil {
		return errNoNATS
	}
	msg := &nats.Msg{Subject: queue.SubjectVerdicts + "." + p.Verdict, Header: nats.Header{}, Data: p.Body}
	if p.Traceparent != "" {
		msg.Header.Set(queue.HeaderTraceparent, p.Traceparent)
	}
	return nc.PublishMsg(msg)
}

// close sends what is buffered, if the server can be reached.
func (v *verdictPublisher) close() {
	nc := v.conn.Load()
	if nc == nil {
		return
	}
	if err := nc.FlushTimeout(flushTimeout); err != nil {
		v.log.Warn().Err(err).Msg("the last verdicts may not have reached NATS")
	}
	nc.Close()
}

// flushTimeout bounds how long the last verdicts delay the end of the process.
const flushTimeout = 2 * time.Second
