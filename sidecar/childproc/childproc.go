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

// Child runs this binary with other arguments. A crash inside libtorch, running out of memory, or a kill ends the child
// process and never the service. The child runs at the lowest priority.
type Child struct {
	program string
	log     zerolog.Logger
	env     []string
}

// Limits are the resource limits of a child; 0: no limit.
type Limits struct {
	Memory int64 // bytes of its resident set
	Time   time.Duration
}

// Reasons to terminate a child.
var (
	ErrMemory = errors.New("over its memory limit")
	ErrTime   = errors.New("over its time limit")
)

const (
	killDelay     = 10 * time.Second // from SIGTERM to SIGKILL
	memoryPoll    = time.Second
	maxLine       = 64 << 10 // bytes of a line of output; the excess is dropped
	maxErrorLines = 5        // of standard error that an error includes
	passiveWait   = "OMP_WAIT_POLICY=PASSIVE"
)

// New returns a Child that runs program, or the running binary if program is "".
func New(program string, log zerolog.Logger) (*Child, error) {
	if program == "" {
		var err error
		if program, err = Executable(); err != nil {
			return nil, fmt.Errorf("find the path of this binary: %w", err)
		}
	}
	return &Child{program: program, log: log, env: childEnvironment(os.Environ())}, nil
}

// childEnvironment removes the variables that set flags of this process, and configures OpenMP threads to sleep while
// they wait: a spinning thread wastes a core of the service.
func childEnvironment(parent []string) []string {
	env := slices.DeleteFunc(slices.Clone(parent), func(variable string) bool {
		return strings.HasPrefix(variable, cli.EnvironmentPrefix) || strings.HasPrefix(variable, "OMP_WAIT_POLICY=") ||
			strings.HasPrefix(variable, "GOMP_SPINCOUNT=") || strings.HasPrefix(variable, "KMP_BLOCKTIME=")
	})
	return append(env, passiveWait, "GOMP_SPINCOUNT=0", "KMP_BLOCKTIME=0")
}

// Run runs the program with args, of which args[0] is the command, and waits for it to exit. onLine, if not nil, is called
// for each line of its standard output. Its log lines are written to the logger of the Child. When ctx ends, the child
// gets SIGTERM, and SIGKILL 10 s later; Run then returns the cause of ctx. The error of a child that fails wraps
// *exec.ExitError and includes its last log lines.
func (c *Child) Run(ctx context.Context, args []string, l Limits, onLine func(line []byte)) error {
	// The kernel kills the child when the thread that started it ends (Pdeathsig). The goroutine locks that thread until
	// the child has exited, so that the thread ends earlier only if this process dies.
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ended <- c.run(ctx, args, l, onLine)
	}()
	return <-ended
}

func (c *Child) run(ctx context.Context, args []string, l Limits, onLine func(line []byte)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if l.Time > 0 {
		timeout := time.AfterFunc(l.Time, func() {
			stop(fmt.Errorf("%w of %v; raise --train-timeout or --train-threads", ErrTime, l.Time))
		})
		defer timeout.Stop()
	}
	forwarder := logForwarder{log: c.log.With().Str("component", args[0]).Logger()}
	output, logs := &lineSplitter{each: onLine}, &lineSplitter{each: forwarder.line}

	level := cli.LevelOf(c.log)
	cmd := exec.CommandContext(ctx, c.program, slices.Concat(args, []string{"--log-format", cli.FormatJSON, "--log-level", level.String()})...)
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = c.env, logs, childAttributes()
	if onLine != nil {
		cmd.Stdout = output
	}
	cmd.WaitDelay = killDelay
	cmd.Cancel = func() error {
		if errors.Is(context.Cause(ctx), ErrMemory) {
			return cmd.Process.Kill() // a graceful exit could use more memory
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("assay %s: %w", args[0], err)
	}
	if err := setLowestPriority(cmd.Process.Pid); err != nil {
		c.log.Warn().Err(err).Str("component", args[0]).Msg("the child process runs at the priority of the service")
	}
	waitWatch := c.watch(ctx, cmd.Process.Pid, l.Memory, stop)
	err := cmd.Wait()
	cause := context.Cause(ctx)
	stop(nil)
	waitWatch()
	output.flush()
	logs.flush()
	switch {
	case err == nil || cmd.ProcessState.Success():
		return nil
	case cause != nil:
		return fmt.Errorf("assay %s: %w", args[0], cause)
	}
	return fmt.Errorf("assay %s: %w%s%s", args[0], err, killedHint(err), forwarder.last())
}

// watch cancels the child if its resident set exceeds limit bytes. The returned function waits until the watch has ended;
// call it after ctx has ended.
func (c *Child) watch(ctx context.Context, pid int, limit int64, stop context.CancelCauseFunc) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(memoryPoll)
		defer tick.Stop()
		for limit > 0 {
			held, peak, err := memoryOf(pid)
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				c.log.Warn().Msg("--train-memory is not supported on this system and has no effect")
				return
			case err == nil && held > limit: // an error means that it is exiting
				stop(fmt.Errorf("%w: resident set %d MiB, peak %d MiB, --train-memory %d MiB; raise --train-memory, or train with smaller forward passes (--max-tokens)",
					ErrMemory, held>>20, peak>>20, limit>>20))
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

// killedHint explains a SIGKILL that this process did not send.
func killedHint(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return ""
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return " (killed by another process, or by the kernel because memory ran out)"
	}
	return ""
}
