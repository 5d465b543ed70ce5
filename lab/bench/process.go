package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a running server.
type process struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{}
	err    error // of its exit; read after exited is closed
}

// command specifies how a process is started.
type command struct {
	Args []string
	Env  []string // in addition to those of this process
	Dir  string
	Log  string // file for its output
}

// start runs the command as the leader of a new process group: that identifies its CPU time, and Ctrl-C reaches only
// this process.
func start(c command) (*process, error) {
	log, err := os.Create(c.Log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...) //nolint:noctx // stop sends SIGTERM first, which a context would not
	cmd.Env, cmd.Dir = append(os.Environ(), c.Env...), c.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &process{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// pollEvery is the interval at which a starting server is asked whether it is ready.
const pollEvery = 100 * time.Millisecond

// ready polls the URL until it answers 200, and returns the body.
func (p *process) ready(ctx context.Context, url string, every time.Duration) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	poll := time.NewTicker(every)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w%s", url, context.Cause(ctx), p.logTail())
		case <-p.exited:
			return nil, fmt.Errorf("the server exited: %w%s", cmp.Or(p.err, errExited), p.logTail())
		case <-poll.C:
		}
		if answer, err := get(ctx, client, url); err == nil {
			return answer, nil
		}
	}
}

var errExited = errors.New("exit status 0")

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	return io.ReadAll(res.Body)
}

// logTail is the end of the output of the process, on a new line.
func (p *process) logTail() string {
	const most = 2000
	text, err := os.ReadFile(p.log.Name())
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// stop sends SIGTERM and, after the grace period, kills the process group.
func (p *process) stop(grace time.Duration) {
	defer p.log.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have exited
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // its children, too
	<-p.exited
}

// FreePort returns a TCP port of this machine that was free a moment ago.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
