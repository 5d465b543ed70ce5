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

// process is a server that runs.
type process struct {
	cmd    *exec.Cmd
	log    *os.File
	ended  chan struct{}
	failed error // how it ended; read after ended is closed
}

// command is how a process is started.
type command struct {
	Args []string
	Env  []string // beside those of this process
	Dir  string
	Log  string // file that takes what it prints
}

// start runs the command as the leader of a process group of its own, which is how its CPU time is told from others'
// and how Ctrl-C reaches this process alone.
func start(c command) (*process, error) {
	log, err := os.Create(c.Log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...) //nolint:noctx // stop asks it to end first, which a context would not
	cmd.Env, cmd.Dir = append(os.Environ(), c.Env...), c.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &process{cmd: cmd, log: log, ended: make(chan struct{})}
	go func() {
		p.failed = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// pollEvery is how often a server that starts is asked whether it is ready.
const pollEvery = 100 * time.Millisecond

// ready asks the address every so often until it answers 200, and returns the answer.
func (p *process) ready(ctx context.Context, url string, every time.Duration) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	poll := time.NewTicker(every)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w%s", url, context.Cause(ctx), p.lastWords())
		case <-p.ended:
			return nil, fmt.Errorf("the server ended: %w%s", cmp.Or(p.failed, errEnded), p.lastWords())
		case <-poll.C:
		}
		if answer, err := get(ctx, client, url); err == nil {
			return answer, nil
		}
	}
}

var errEnded = errors.New("exit status 0")

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

// lastWords is the end of what the process printed, on a line of its own.
func (p *process) lastWords() string {
	const most = 2000
	text, err := os.ReadFile(p.log.Name())
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// stop asks the process to end and, where it has not after the grace, kills its group.
func (p *process) stop(grace time.Duration) {
	defer p.log.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what it left behind, too
	<-p.ended
}

// freePort is a TCP port of this machine that nobody listened on just now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
