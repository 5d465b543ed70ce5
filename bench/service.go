package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Service is assay as a process of its own, on free ports, whose data goes with it.
type Service struct {
	URL   string        // of its HTTP side
	Start time.Duration // from the start of the process to its first 200 of /readyz

	process *process
	scratch string
	proc    proc
}

// startPoll is how often a service is asked whether it is ready where its start is measured; Start is at most that
// much too long.
const startPoll = 5 * time.Millisecond

// StartService runs "assay serve" of a binary with the flags and waits until it is ready, for the limit at most. It
// serves over HTTP and NATS and runs no trainings. Close it.
func StartService(ctx context.Context, binary string, limit time.Duration, flags ...string) (*Service, error) {
	scratch, err := os.MkdirTemp("", "assay-bench-*")
	if err != nil {
		return nil, err
	}
	s := &Service{scratch: scratch, proc: newProc()}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %v", limit))
	defer cancel()
	if err := s.start(ctx, binary, flags); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Service) start(ctx context.Context, binary string, flags []string) (err error) {
	at := place{assay: binary, scratch: s.scratch}
	for _, port := range []*int{&at.port, &at.nats} {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	s.URL = fmt.Sprintf("http://127.0.0.1:%d", at.port)
	began := time.Now()
	if s.process, err = start(command{Args: append(at.serve(), flags...), Log: filepath.Join(s.scratch, "log")}); err != nil {
		return err
	}
	_, err = s.process.ready(ctx, s.URL+"/readyz", startPoll)
	s.Start = time.Since(began)
	return err
}

// Memory is what the service holds now. It needs Linux.
func (s *Service) Memory() (Memory, error) {
	return s.proc.memory(strconv.Itoa(s.process.cmd.Process.Pid))
}

// CPU is the time that the service has computed since its start. It needs Linux.
func (s *Service) CPU() (time.Duration, error) {
	used, err := s.proc.group(s.process.cmd.Process.Pid)
	return used.CPU, err
}

// Done is closed when the service has ended, by itself or by Close.
func (s *Service) Done() <-chan struct{} { return s.process.ended }

// Err says why the service ended, with the last lines that it printed. Call it after Done and before Close.
func (s *Service) Err() error {
	return fmt.Errorf("the service ended: %w%s", cmp.Or(s.process.failed, errEnded), s.process.lastWords())
}

// Close ends the service and removes its data.
func (s *Service) Close() error {
	if s.process != nil {
		s.process.stop(20 * time.Second)
	}
	return os.RemoveAll(s.scratch)
}
