package serve

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/rs/zerolog"

	"assay/api"
	"assay/sidecar/cli"
)

// listen opens the listeners, and then writes the private token: a start that
// fails because the service already runs must not replace its token.
func (s *Service) listen() (err error) {
	parts := api.Parts{
		Scorer: &s.handle, Models: &s.handle, Tokens: s.tokens, TLS: s.tls, Memory: s.memory, Scored: s.scored, Live: s.live, Tracer: s.traces.Tracer(),
		Checks: []api.Check{{Name: "model", Ready: s.handle.modelReady}},
	}
	audit := s.log
	if s.config.AuditLog != "" {
		file, err := openAuditFile(s.config.AuditLog, s.log)
		if err != nil {
			return cli.Usage(fmt.Errorf("--audit-log: %w", err))
		}
		audit = zerolog.New(file).With().Timestamp().Logger()
	}
	parts.Audit = &audit
	if s.config.Pin != "" {
		audit.Log().Str("audit", "pin").Str("by", "operator").Str("subject", s.config.Pin).Str("result", "ok").Send()
	}
	if s.config.NATS {
		parts.Checks = append(parts.Checks, api.Check{Name: "streams", Ready: s.handle.streamsReady, AtStart: true})
		parts.Feedback, parts.FeedbackView, parts.Registry = &s.control, &s.control, &s.control
		parts.Promotions, parts.Trainer, parts.Events = &s.control, &s.control, &s.control
	}
	if s.http, err = api.New(s.config.API, parts, s.log, s.registry); err != nil {
		return cli.Usage(err)
	}
	var config net.ListenConfig
	var opened []net.Listener
	for _, l := range []struct {
		flag, address string
		listener      *net.Listener
	}{
		{"--listen", s.config.Listen, &s.listener}, {"--ops-listen", s.config.OpsListen, &s.ops}, {"--grpc-listen", s.config.GRPCListen, &s.grpc},
	} {
		if l.address == "" {
			continue
		}
		if *l.listener, err = config.Listen(context.Background(), "tcp", l.address); err != nil {
			return closeAll(opened, fmt.Errorf("%s: %w; stop the process that uses the address, or choose another", l.flag, err))
		}
		opened = append(opened, *l.listener)
	}
	if s.private != "" {
		if err := cli.WritePrivateToken(s.config.DataDir, s.private); err != nil {
			return closeAll(opened, err)
		}
	}
	return nil
}

// listeners are the open listeners.
func (s *Service) listeners() (open []net.Listener) {
	for _, l := range []net.Listener{s.listener, s.ops, s.grpc} {
		if l != nil {
			open = append(open, l)
		}
	}
	return open
}

// closeAll closes listeners and returns err, joined with their errors.
func closeAll(listeners []net.Listener, err error) error {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}
