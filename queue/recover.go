package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	healthEvery = time.Second
	healthRests = 30 * time.Second // at most, between attempts to recover
	healthCalm  = time.Minute      // without trouble, after which attempts are quick again

	// probeBytes must fit on the disk before the streams are opened again.
	probeBytes = 4 << 20
)

// ErrStoreFailed says that the embedded server cannot write to its disk. It
// takes up work by itself when it can again.
var ErrStoreFailed = errors.New("the streams cannot be written")

// Healthy returns nil while the streams can be written. Its error wraps
// ErrStoreFailed; it passes when the disk has space again. Of the streams of an
// external server, with s nil, nothing is known.
func (s *Server) Healthy() error {
	if s == nil {
		return nil
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *Server) report(err error) { s.failed.Store(&err) }

// guard watches the streams until ctx ends. One that failed to write, as on a
// full disk, takes nothing more until it is opened again, and answers nobody. So
// the guard closes all streams at once: then publishers get an error instead of
// no answer, and score requests are still passed on. When the disk takes data
// again, it puts a new server in the place of the old one; clients reconnect.
// What a server acknowledged was written before, and is found again.
func (s *Server) guard(ctx context.Context) {
	rest, calm := healthEvery, time.Time{}
	for pause(ctx, healthEvery); ctx.Err() == nil; pause(ctx, healthEvery) {
		why := s.trouble()
		if why == nil {
			if time.Since(calm) > healthCalm {
				rest = healthEvery
			}
			continue
		}
		s.report(fmt.Errorf("%w: %w; free space on the disk of --data-dir", ErrStoreFailed, why))
		s.log.Error().Err(why).Str("data_dir", s.cfg.DataDir).Msg("the streams cannot be written: feedback and streamed responses are refused until the disk of --data-dir takes data again")
		for ctx.Err() == nil {
			err := s.reopen()
			if err == nil {
				s.report(nil)
				s.log.Info().Msg("the streams can be written again")
				break
			}
			s.log.Warn().Err(err).Dur("retry_in", rest).Msg("the streams still cannot be written")
			pause(ctx, rest)
			rest = min(2*rest, healthRests)
		}
		calm = time.Now()
	}
}

// trouble returns why a stream, or all of them, cannot be written.
func (s *Server) trouble() error {
	srv := s.running.Load()
	if !srv.JetStreamEnabled() {
		return errors.New("JetStream is off")
	}
	for _, e := range srv.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if strings.Contains(e.Error, "write error") {
			return errors.New(e.Error)
		}
	}
	return nil
}

// reopen closes all streams and, if the disk takes data, starts a new server on
// the same address. (JetStream can be started again inside a server, but that
// server would then serve each of its requests twice.)
func (s *Server) reopen() error {
	srv := s.running.Load()
	if err := srv.ShutdownJetStream(); err != nil {
		return err
	}
	if err := s.probe(); err != nil {
		return err
	}
	opts, err := s.cfg.options()
	if err != nil {
		return err
	}
	shutdown(srv)
	return s.start(opts)
}

// probe writes a file.
func (s *Server) probe() error {
	path := filepath.Join(s.cfg.DataDir, "probe")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(path))
}
