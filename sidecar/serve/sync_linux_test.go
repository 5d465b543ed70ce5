package serve_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"assay/sidecar/processtest"
)

// A service with the default flags syncs a label before it sends the status 202, as strace shows.
func TestFeedbackIsSyncedBeforeTheResponse(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace (apt-get install strace)")
	}
	p := processtest.Serve(t, processtest.TinyModel(t, nil), t.TempDir(), "--no-train")
	trace := filepath.Join(t.TempDir(), "trace")
	tracer := exec.Command(strace, "-f", "-y", "-e", "trace=fsync,fdatasync,write,writev", "-o", trace, "-p", strconv.Itoa(p.Cmd.Process.Pid))
	stderr, err := tracer.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, tracer.Start())
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !strings.Contains(lines.Text(), "attached") {
		_ = tracer.Wait()
		t.Skipf("strace may not trace here: %s", lines.Text())
	}
	reply, err := http.Post(p.Ready.HTTP+"/v1/feedback", "application/json",
		strings.NewReader(`{"items":[{"id":"r1","label":"violation","response":"A text."}]}`))
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusAccepted, reply.StatusCode)
	require.NoError(t, tracer.Process.Signal(unix.SIGINT)) // strace detaches from the service
	_, _ = io.Copy(io.Discard, stderr)
	_ = tracer.Wait()

	data, err := os.ReadFile(trace)
	require.NoError(t, err)
	calls := strings.Split(string(data), "\n")
	sync := slices.IndexFunc(calls, func(c string) bool {
		return strings.Contains(c, "sync(") && strings.Contains(c, "/streams/ASSAY_FEEDBACK/msgs/")
	})
	require.GreaterOrEqual(t, sync, 0, "no fsync of the label:\n%s", data)
	if thread, _, unfinished := strings.Cut(calls[sync], " "); unfinished && strings.Contains(calls[sync], "<unfinished") {
		sync += slices.IndexFunc(calls[sync:], func(c string) bool {
			return strings.HasPrefix(c, thread+" ") && strings.Contains(c, "sync resumed>")
		})
	}
	accepted := slices.IndexFunc(calls, func(c string) bool { return strings.Contains(c, "HTTP/1.1 202") })
	require.Greater(t, accepted, sync, "the response came before the fsync:\n%s", data)
}
