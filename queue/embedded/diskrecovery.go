package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/queue/internal/blocks"
	"assay/queue/internal/js"
	"assay/queue/labels"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	checkInterval      = time.Second
	maxRecoveryDelay   = 30 * time.Second // between attempts to recover
	recoveryResetAfter = time.Minute      // without failures, after which the delay starts again at checkInterval

	// probeBytes must fit on the disk before the streams are opened again.
	probeBytes = 4 << 20
)

// ErrStoreFailed reports that the embedded server cannot write to its disk. The server
// recovers when it can write again.
var ErrStoreFailed = errors.New("the streams cannot be written")

// Healthy returns nil while the streams can be written. Its error wraps ErrStoreFailed, and
// passes when the disk has space again. For an external server, with s nil, it returns
// nil.
func (s *Server) Healthy() error {
	if s == nil {
		return nil
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *Server) report(err error) {
	s.failed.Store(&err)
	s.interruptions.Add(1)
}

// Interruptions and Check make a Server a js.Disk.
func (s *Server) Interruptions() uint64 { return s.interruptions.Load() }

// Check is Healthy for a failure that the monitor may not have noticed yet.
func (s *Server) Check() error {
	if err := s.Healthy(); err != nil {
		return err
	}
	return s.writeError()
}

// monitorDisk watches the streams until ctx ends. A stream that failed to write, as on a
// full disk, accepts nothing more until it is opened again, and does not reply. So it
// closes all streams immediately: then publishers get an error instead of no reply, and
// score requests still work. When the disk accepts data again, a new server replaces the
// old one; clients reconnect. What the old server acknowledged is on disk.
func (s *Server) monitorDisk(ctx context.Context) {
	delay, recovered := checkInterval, time.Time{}
	streams := map[string]bool{} // those that were open last
	for js.Sleep(ctx, checkInterval); ctx.Err() == nil; js.Sleep(ctx, checkInterval) {
		why := s.writeError()
		switch {
		case why != nil:
			s.report(fmt.Errorf("%w: %w; free space on the disk of the data directory", ErrStoreFailed, why))
			s.log.Error().Err(why).Str("data_dir", s.cfg.DataDir).Msg("the streams cannot be written: feedback and streamed responses are rejected until the disk accepts data again")
		case s.labelsDamaged():
			s.report(fmt.Errorf("%w while a damaged label is erased", ErrStoreFailed))
			s.log.Warn().Msg("closing the streams to erase a damaged label")
		default:
			streams = openStreams(s.running.Load())
			if time.Since(recovered) > recoveryResetAfter {
				delay = checkInterval
			}
			continue
		}
		for ctx.Err() == nil {
			err := s.reopen(streams)
			if err == nil {
				s.report(nil)
				s.log.Info().Msg("the streams can be written again")
				break
			}
			s.log.Warn().Err(err).Dur("retry_in", delay).Msg("the streams still cannot be written")
			js.Sleep(ctx, delay)
			delay = min(2*delay, maxRecoveryDelay)
		}
		recovered = time.Now()
	}
}

// writeError returns why a stream, or all of them, cannot be written, or nil.
func (s *Server) writeError() error {
	srv := s.running.Load()
	if !srv.JetStreamEnabled() {
		return errors.New("JetStream is off")
	}
	failed := failedStreams(srv)
	if len(failed) == 0 {
		return nil
	}
	// A single server reports a stream for two reasons: it could not recover it, and
	// then does not have it, or it cannot write it.
	open := openStreams(srv)
	for name, why := range failed {
		if open[name] {
			return errors.New(why)
		}
	}
	return nil
}

// failedStreams returns why streams failed, by their names.
func failedStreams(srv *server.Server) map[string]string {
	failed := map[string]string{}
	for _, e := range srv.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if e.Type == server.HealthzErrorStream {
			failed[e.Stream] = e.Error
		}
	}
	return failed
}

// openStreams returns the names of the streams that a server has.
func openStreams(srv *server.Server) map[string]bool {
	open := map[string]bool{}
	info, err := srv.Jsz(&server.JSzOptions{Streams: true})
	if err != nil {
		return open
	}
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			open[stream.Name] = true
		}
	}
	return open
}

// reopen closes all streams and, if the disk accepts data, starts a new server on the
// same address. It fails unless the server recovers the given streams: the disk may have
// failed again meanwhile. (JetStream can be started again inside a server, but that
// server would then serve each of its requests twice.)
func (s *Server) reopen(streams map[string]bool) error {
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
	if err := s.start(opts); err != nil {
		return err
	}
	for name, why := range failedStreams(s.running.Load()) {
		if streams[name] {
			return errors.New(why)
		}
	}
	return nil
}

// checkLabels makes the monitor look for damaged labels that only a server that is stopped
// can lose, when one was read.
func (s *Server) checkLabels(r js.DamagedRecord) {
	if r.Stream == labels.StreamFeedback {
		s.damaged.Store(true)
	}
}

// labelsDamaged reports whether labels are damaged that eraseLabels would erase.
func (s *Server) labelsDamaged() bool {
	if !s.damaged.Swap(false) {
		return false
	}
	found, err := s.labelBlocks().Damaged()
	if err != nil {
		s.log.Warn().Err(err).Msg("cannot read the files of the labels")
	}
	return len(found) > 0
}

// eraseLabels erases the damaged labels of a server that is stopped: it could not replace
// them, and would cut off the file that they are in after a crash.
func (s *Server) eraseLabels() {
	erased, err := s.labelBlocks().Erase()
	if err != nil {
		s.log.Warn().Err(err).Msg("cannot erase the damaged labels")
	}
	for _, m := range erased {
		s.damage.ReportErased(js.DamagedRecord{Stream: labels.StreamFeedback, Subject: m.Subject, Sequence: m.Sequence})
	}
}

func (s *Server) labelBlocks() blocks.Stream {
	return blocks.Stream{Name: labels.StreamFeedback, Subject: js.SubjectOf, Dir: filepath.Join(s.streamDir(labels.StreamFeedback), "msgs")}
}

func (s *Server) streamDir(name string) string {
	return filepath.Join(s.cfg.DataDir, "nats", "jetstream", "$G", "streams", name)
}

// RemoveConsumer removes the files of a consumer that the server could not load, and
// cannot create while they are there.
func (s *Server) RemoveConsumer(stream, consumer string) error {
	return os.RemoveAll(filepath.Join(s.streamDir(stream), "obs", consumer))
}

// probe checks that a file can be written.
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
