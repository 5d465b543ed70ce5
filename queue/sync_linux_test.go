package queue

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
)

// traced are the system calls that show when data is on disk and when a client is
// notified.
const traced = "trace=fsync,fdatasync,write,pwrite64,writev,sendto"

// strace of a storing process shows a write to the store, a completed fsync of that
// file, and only then the acknowledgement to the client.
func TestAnFsyncComesBeforeEachAcknowledgement(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace (apt-get install strace)")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	wrapper := []string{strace, "-f", "-y", "-s", "2000", "-e", traced, "-o", trace, "--"}
	if out, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v: %s", err, out)
	}
	p := spawnUnder(t, wrapper, t.TempDir())
	require.Eventually(t, func() bool {
		_, err := p.nc.Request("$SRV.PING.assay", nil, time.Second)
		return err == nil
	}, jstest.Timeout, 5*time.Millisecond)

	label := func(id, text string) {
		reply, err := p.nc.Request(labels.SubjectFeedback, fmt.Appendf(nil, `{"id":%q,"label":"violation","response":%q}`, id, text), jstest.Timeout)
		require.NoError(t, err)
		require.Contains(t, string(reply.Data), `"accepted":1`)
	}
	label("one", "a-single-label")
	var items []string
	for i := range 100 {
		items = append(items, fmt.Sprintf(`{"id":"b%d","label":"violation","response":"a-batch-of-labels"}`, i))
	}
	reply, err := p.nc.Request(labels.SubjectFeedback, []byte(`{"items":[`+strings.Join(items, ",")+`]}`), jstest.Timeout)
	require.NoError(t, err)
	require.Contains(t, string(reply.Data), `"accepted":100`)
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	_, err = p.js.Publish(ctx, SubjectResponses+".x", []byte(item("a-streamed-response")), jetstream.WithMsgID("1"))
	require.NoError(t, err)
	p.nc.Close()
	require.NoError(t, p.in.Close())
	require.NoError(t, p.cmd.Wait())

	data, err := os.ReadFile(trace)
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	for _, tc := range []struct{ text, stream, ack string }{
		{"a-single-label", labels.StreamFeedback, `\"accepted\":1,`},
		{"a-batch-of-labels", labels.StreamFeedback, `\"accepted\":100,`},
		{"a-streamed-response", StreamResponses, `{\"stream\":\"` + StreamResponses + `\"`},
	} {
		file := "/streams/" + tc.stream + "/msgs/"
		written := last(lines, 0, func(l string) bool {
			return isCall(l, "write", "pwrite64") && strings.Contains(l, file) && strings.Contains(l, tc.text)
		})
		require.GreaterOrEqual(t, written, 0, tc.text)
		synced := first(lines, written, func(l string) bool { return isCall(l, "fsync", "fdatasync") && strings.Contains(l, file) })
		require.GreaterOrEqual(t, synced, 0, tc.text)
		synced = ended(lines, synced)
		known := first(lines, 0, func(l string) bool {
			return isCall(l, "write", "writev", "sendto") && strings.Contains(l, tc.ack) && !strings.Contains(l, "/streams/")
		})
		require.GreaterOrEqual(t, known, 0, tc.text)
		require.Greater(t, known, synced, "%s: acknowledged before the fsync:\n%s\n%s", tc.text, lines[known], lines[synced])
	}
}

var call = regexp.MustCompile(`^(\d+) +(\w+)\(`)

func isCall(line string, names ...string) bool {
	m := call.FindStringSubmatch(line)
	for _, name := range names {
		if m != nil && m[2] == name {
			return true
		}
	}
	return false
}

func first(lines []string, from int, is func(string) bool) int {
	for i := from; i < len(lines); i++ {
		if is(lines[i]) {
			return i
		}
	}
	return -1
}

func last(lines []string, from int, is func(string) bool) int {
	for i := len(lines) - 1; i >= from; i-- {
		if is(lines[i]) {
			return i
		}
	}
	return -1
}

// ended returns the line in which the system call of another line returns.
func ended(lines []string, at int) int {
	if !strings.Contains(lines[at], "<unfinished ...>") {
		return at
	}
	m := call.FindStringSubmatch(lines[at])
	return first(lines, at, func(l string) bool {
		return strings.HasPrefix(l, m[1]+" ") && strings.Contains(l, "<... "+m[2]+" resumed>")
	})
}
