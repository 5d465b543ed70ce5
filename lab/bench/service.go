package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Service is a running "assay serve" on free ports, whose data is removed when it is closed.
type Service struct {
	URL   string        // of its HTTP API
	Start time.Duration // from the start of the process to its first 200 of /readyz

	process *process
	scratch string
	proc    proc
}

// ServiceOptions specify how StartService starts assay.
type ServiceOptions struct {
	Binary  string
	Timeout time.Duration // of the start
	Flags   []string      // of assay serve
	Env     []string      // in addition to that of this process
	Cgroup  string        // directory of a cgroup that the process joins; "": none
}

// startPoll is the interval at which a service is asked whether it is ready; Service.Start is at most that much too
// long.
const startPoll = 5 * time.Millisecond

// StartService runs "assay serve" and waits until it is ready. It serves over HTTP and NATS and starts no training jobs.
// The caller closes it.
func StartService(ctx context.Context, o ServiceOptions) (*Service, error) {
	scratch, err := os.MkdirTemp("", "assay-bench-*")
	if err != nil {
		return nil, err
	}
	s := &Service{scratch: scratch, proc: newProc()}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not ready after %v", o.Timeout))
	defer cancel()
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Service) start(ctx context.Context, o ServiceOptions) (err error) {
	at := target{assay: o.Binary, scratch: s.scratch}
	for _, port := range []*int{&at.port, &at.nats} {
		if *port, err = FreePort(); err != nil {
			return err
		}
	}
	s.URL = fmt.Sprintf("http://127.0.0.1:%d", at.port)
	args := append(at.serve(), o.Flags...)
	if o.Cgroup != "" {
		join := fmt.Sprintf(`echo $$ > %q && exec "$0" "$@"`, filepath.Join(o.Cgroup, "cgroup.procs"))
		args = append([]string{"sh", "-c", join}, args...)
	}
	began := time.Now()
	if s.process, err = start(command{Args: args, Env: o.Env, Log: s.log()}); err != nil {
		return err
	}
	_, err = s.process.ready(ctx, s.URL+"/readyz", startPoll)
	s.Start = time.Since(began)
	return err
}

func (s *Service) log() string { return filepath.Join(s.scratch, "log") }

// LogBytes is the size of the log so far.
func (s *Service) LogBytes() (int64, error) {
	info, err := os.Stat(s.log())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Memory is the resident memory of the service now. It needs Linux.
func (s *Service) Memory() (Memory, error) {
	return s.proc.memory(s.process.cmd.Process.Pid)
}

// CPU is the CPU time of the service since its start. It needs Linux.
func (s *Service) CPU() (time.Duration, error) {
	used, err := s.proc.group(s.process.cmd.Process.Pid)
	return used.CPU, err
}

// Done is closed when the service has exited, by itself or by Close.
func (s *Service) Done() <-chan struct{} { return s.process.exited }

// Err returns why the service exited, with the end of its log. Call it after Done and before Close.
func (s *Service) Err() error {
	return fmt.Errorf("the service exited: %w%s", cmp.Or(s.process.err, errExited), s.process.logTail())
}

// Close stops the service and removes its data.
func (s *Service) Close() error {
	if s.process != nil {
		s.process.stop(20 * time.Second)
	}
	return os.RemoveAll(s.scratch)
}
