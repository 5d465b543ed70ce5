package childproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"assay/sidecar/cli"
)

// Child runs this same binary with other arguments: a crash inside libtorch, a full memory or a kill takes that
// process along and never the service. What it computes yields to whatever else the machine has to do.
type Child struct {
	program string
	log     zerolog.Logger
	env     []string
}

// Limits are those of a child; 0 is none.
type Limits struct {
	Memory int64 // bytes that it may hold (resident set)
	Time   time.Duration
}

// Why a child was ended.
var (
	ErrMemory = errors.New("over its memory limit")
	ErrTime   = errors.New("over its time limit")
)

const (
	killDelay     = 10 * time.Second // from SIGTERM to SIGKILL
	memoryPoll    = time.Second
	maxLine       = 64 << 10 // bytes of a line of the child's that are kept
	maxErrorLines = 5        // of standard error that an error repeats
	passiveWait   = "OMP_WAIT_POLICY=PASSIVE"
)

// New returns a runner of program, or of the binary that runs when that is "".
func New(program string, log zerolog.Logger) (*Child, error) {
	if program == "" {
		var err error
		if program, err = OwnProgram(); err != nil {
			return nil, fmt.Errorf("path of this program: %w", err)
		}
	}
	return &Child{program: program, log: log, env: childEnvironment(os.Environ())}, nil
}

// childEnvironment leaves out what sets flags of this process, which are not the child's, and tells OpenMP's threads to
// sleep while they wait: one that spins takes a core from the service for nothing.
func childEnvironment(own []string) []string {
	env := slices.DeleteFunc(slices.Clone(own), func(variable string) bool {
		return strings.HasPrefix(variable, cli.EnvironmentPrefix) || strings.HasPrefix(variable, "OMP_WAIT_POLICY=") ||
			strings.HasPrefix(variable, "GOMP_SPINCOUNT=") || strings.HasPrefix(variable, "KMP_BLOCKTIME=")
	})
	return append(env, passiveWait, "GOMP_SPINCOUNT=0", "KMP_BLOCKTIME=0")
}

// Run gives args to the program, args[0] being the command, and waits for its end. onLine, if not nil, gets each line
// of its standard output. Its logs become ours. When ctx ends it gets SIGTERM, and after 10 s SIGKILL; run returns the
// cause of ctx then. The error of a child that fails wraps *exec.ExitError and repeats its last lines.
func (c *Child) Run(ctx context.Context, args []string, l Limits, onLine func(line []byte)) error {
	// The kernel kills the child when the thread that started it ends, which is when this process ends however it
	// dies, and never before the child: the goroutine keeps the thread until then, and takes it along.
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ended <- c.here(ctx, args, l, onLine)
	}()
	return <-ended
}

func (c *Child) here(ctx context.Context, args []string, l Limits, onLine func(line []byte)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if l.Time > 0 {
		late := time.AfterFunc(l.Time, func() {
			stop(fmt.Errorf("%w: not done after %v; raise --train-timeout or give it more --train-threads", ErrTime, l.Time))
		})
		defer late.Stop()
	}
	relog := relogger{log: c.log.With().Str("component", args[0]).Logger()}
	output, logs := &lineCutter{each: onLine}, &lineCutter{each: relog.line}

	level := cli.LevelOf(c.log)
	cmd := exec.CommandContext(ctx, c.program, slices.Concat(args, []string{"--log-format", cli.FormatJSON, "--log-level", level.String()})...)
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = c.env, logs, childAttributes()
	if onLine != nil {
		cmd.Stdout = output
	}
	cmd.WaitDelay = killDelay
	cmd.Cancel = func() error {
		if errors.Is(context.Cause(ctx), ErrMemory) {
			return cmd.Process.Kill() // it has no time to lose
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("assay %s: %w", args[0], err)
	}
	if err := yieldCPU(cmd.Process.Pid); err != nil {
		c.log.Warn().Err(err).Str("component", args[0]).Msg("the child process runs at the priority of the service")
	}
	unwatched := c.watch(ctx, cmd.Process.Pid, l.Memory, stop)
	err := cmd.Wait()
	cause := context.Cause(ctx)
	stop(nil)
	unwatched()
	output.flush()
	logs.flush()
	switch {
	case err == nil || cmd.ProcessState.Success():
		return nil
	case cause != nil:
		return fmt.Errorf("assay %s: %w", args[0], cause)
	}
	return fmt.Errorf("assay %s: %w%s%s", args[0], err, killedHint(err), relog.last())
}

// watch ends the child when it holds more memory than it may. The function that it returns waits for its end, after
// that of ctx.
func (c *Child) watch(ctx context.Context, pid int, most int64, stop context.CancelCauseFunc) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(memoryPoll)
		defer tick.Stop()
		for most > 0 {
			held, peak, err := memoryOf(pid)
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				c.log.Warn().Msg("--train-memory has no effect on this system")
				return
			case err == nil && held > most: // without a reading it is about to end
				stop(fmt.Errorf("%w: it held %d MiB, at most %d MiB, and --train-memory allows %d MiB; raise that, or train in smaller chunks (--max-tokens)",
					ErrMemory, held>>20, peak>>20, most>>20))
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { <-done }
}

// killedHint says what SIGKILL from outside usually means.
func killedHint(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return ""
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return " (not by us: by somebody, or by the kernel for want of memory)"
	}
	return ""
}
