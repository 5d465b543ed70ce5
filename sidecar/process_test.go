package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// process is "assay serve" as a process of its own.
type process struct {
	cmd    *exec.Cmd
	ready  readyLine
	became chan readyLine // gets that line
	log    []string       // of standard error, complete once done is closed
	tries  chan string    // lines that it prints to be tried
	done   chan struct{}
	exited bool
}

// readyLine is the log line that tells that the service is ready.
type readyLine struct {
	Message string `json:"message"`
	HTTP    string `json:"http"`
	GRPC    string `json:"grpc"`
	NATS    string `json:"nats"`
	Model   string `json:"model"`
}

// serving are the flags of a service in a test.
func serving(model, data string, args ...string) []string {
	return append([]string{"--model", model, "--threads", "1", "--precision", "fp32", "--data-dir", data, "--ack-wait", "1s"}, args...)
}

// serve starts the service on free ports and waits until it is ready.
func serve(t *testing.T, model, data string, args ...string) *process {
	t.Helper()
	p := launch(t, serving(model, data, args...)...)
	if p.ready.HTTP == "" {
		t.Fatalf("the service did not become ready:\n%s", p.output())
	}
	return p
}

// launch starts the service and waits until it is ready or has ended.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, args...).await(t)
}

// await waits until the service is ready or has ended.
func (p *process) await(t *testing.T) *process {
	t.Helper()
	select {
	case p.ready = <-p.became:
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("the service neither became ready nor ended")
	}
	return p
}

// start starts the service.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startBinary(t, os.Args[0], args...)
}

// startBinary starts the service of another build.
func startBinary(t *testing.T, binary string, args ...string) *process {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}, args...)
	p := &process{cmd: exec.Command(binary, args...), done: make(chan struct{}), tries: make(chan string, 10), became: make(chan readyLine, 1)}
	p.cmd.Env = append(os.Environ(), childVariable+"=1")
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { p.kill() })
	go p.read(stderr)
	return p
}

func (p *process) read(stderr io.Reader) {
	defer close(p.done)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.log = append(p.log, lines.Text())
		var line readyLine
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "ready" {
			p.became <- line
		}
		if try := strings.TrimSpace(lines.Text()); strings.HasPrefix(try, "curl ") {
			p.tries <- try
		}
	}
}

// output is what the process said; call it when it has ended.
func (p *process) output() string {
	<-p.done
	return strings.Join(p.log, "\n")
}

// kill is kill -9.
func (p *process) kill() {
	if !p.exited {
		p.exited = true
		_ = p.cmd.Process.Kill()
		<-p.done
		_ = p.cmd.Wait()
	}
}

func (p *process) signal(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
}

// wait returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("the service did not stop")
	}
	p.exited = true
	_ = p.cmd.Wait() // a code that is not 0 is an error here
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) jetStream(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(p.ready.NATS, nats.NoReconnect())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return nc, js
}

// stored is the number of messages in a stream.
func stored(t *testing.T, js jetstream.JetStream, stream string) int {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	return int(s.CachedInfo().State.Msgs)
}
