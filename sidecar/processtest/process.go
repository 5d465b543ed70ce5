package processtest

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

// Process is a running "assay serve".
type Process struct {
	Cmd      *exec.Cmd
	Ready    readyLine
	became   chan readyLine // receives the ready line
	Log      []string       // of standard error, complete once done is closed
	commands chan string    // printed sample commands
	Done     chan struct{}
	exited   bool
}

// readyLine is the log line of a service that is ready.
type readyLine struct {
	Message string `json:"message"`
	HTTP    string `json:"http"`
	GRPC    string `json:"grpc"`
	NATS    string `json:"nats"`
	Model   string `json:"model"`
}

// Serving are the flags of a service in a test.
func Serving(model, data string, args ...string) []string {
	return append([]string{"--model", model, "--threads", "1", "--precision", "fp32", "--data-dir", data, "--ack-wait", "1s"}, args...)
}

// Serve starts the service on free ports and waits until it is ready.
func Serve(t *testing.T, model, data string, args ...string) *Process {
	t.Helper()
	p := Launch(t, Serving(model, data, args...)...)
	if p.Ready.HTTP == "" {
		t.Fatalf("the service did not become ready:\n%s", p.Output())
	}
	return p
}

// Launch starts the service and waits until it is ready or has ended.
func Launch(t *testing.T, args ...string) *Process {
	t.Helper()
	return Start(t, args...).Await(t)
}

// Await waits until the service is ready or has ended.
func (p *Process) Await(t *testing.T) *Process {
	t.Helper()
	return p.AwaitWithin(t, Timeout)
}

// AwaitWithin is Await with another timeout.
func (p *Process) AwaitWithin(t *testing.T, timeout time.Duration) *Process {
	t.Helper()
	select {
	case p.Ready = <-p.became:
	case <-p.Done:
	case <-time.After(timeout):
		t.Fatal("the service neither became ready nor ended")
	}
	return p
}

// Start starts the service.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	return StartBinary(t, os.Args[0], args...)
}

// StartBinary starts the service of another build.
func StartBinary(t *testing.T, binary string, args ...string) *Process {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}, args...)
	p := &Process{Cmd: exec.Command(binary, args...), Done: make(chan struct{}), commands: make(chan string, 10), became: make(chan readyLine, 1)}
	p.Cmd.Env = append(os.Environ(), ChildVariable+"=1")
	stderr, err := p.Cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.Cmd.Start())
	t.Cleanup(func() { p.Kill() })
	go p.read(stderr)
	return p
}

func (p *Process) read(stderr io.Reader) {
	defer close(p.Done)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.Log = append(p.Log, lines.Text())
		var line readyLine
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "ready" {
			p.became <- line
		}
		if try := strings.TrimSpace(lines.Text()); strings.HasPrefix(try, "curl ") {
			p.commands <- try
		}
	}
}

// Output is the standard error of the process; call it after it has exited.
func (p *Process) Output() string {
	<-p.Done
	return strings.Join(p.Log, "\n")
}

// Kill is kill -9.
func (p *Process) Kill() {
	if !p.exited {
		p.exited = true
		_ = p.Cmd.Process.Kill()
		<-p.Done
		_ = p.Cmd.Wait()
	}
}

// Signal sends SIGTERM.
func (p *Process) Signal(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
}

// Wait returns the exit code.
func (p *Process) Wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.Done:
	case <-time.After(Timeout):
		t.Fatal("the service did not stop")
	}
	p.exited = true
	_ = p.Cmd.Wait() // a code that is not 0 is an error here
	return p.Cmd.ProcessState.ExitCode()
}

// JetStream connects to the embedded NATS server of the process until the test ends.
func (p *Process) JetStream(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(p.Ready.NATS, nats.NoReconnect())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return nc, js
}

// Stored is the number of messages in a stream.
func Stored(t *testing.T, js jetstream.JetStream, stream string) int {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	return int(s.CachedInfo().State.Msgs)
}
