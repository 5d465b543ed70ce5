package queue

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// smallDisk mounts a file system of a few MiB, and skips the test where that is not
// permitted.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if n, err := f.Write(make([]byte, size)); err != nil && n == 0 {
			size /= 2
		}
	}
}

// The disk fills up while feedback and responses arrive. Nothing acknowledged is
// lost, scoring continues, what cannot be stored is rejected with the reason, and
// everything recovers once there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	cfg := testConfig(t)
	cfg.Server.DataDir = filepath.Join(disk, "data")
	q := startQueue(t, cfg, scorerFunc(good))
	f := q.Labels()
	labelstest.Accepts(t, f, 100, 0, labelstest.Some(0, 100)...)
	stored, streamed := 100, 0
	stream := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := q.js.Publish(ctx, SubjectResponses+".x", []byte(item(strings.Repeat("A word. ", 200))), jetstream.WithRetryAttempts(0))
		if err == nil {
			streamed++
		}
		return err
	}
	for range 100 {
		require.NoError(t, stream())
	}

	for round := range 2 {
		ballast := filepath.Join(disk, "ballast")
		fill(t, ballast)
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
			defer cancel()
			b := labelstest.Labeled("", bag.Violation)
			b.ID, b.Response = "d"+string(rune('a'+round))+time.Now().Format(time.RFC3339Nano), strings.Repeat("word ", 1000)
			_, err := f.Append(ctx, labelstest.BatchOf(b), "")
			if err == nil {
				stored++
				return false
			}
			require.ErrorIs(t, err, feedback.ErrUnavailable)
			return q.Ready(t.Context()) != nil
		}, jstest.Timeout, time.Millisecond)
		require.ErrorContains(t, q.Ready(t.Context()), "data directory")

		// Scoring needs no disk; streamed responses are rejected.
		answer, err := NewClient(q.nc).Score(t.Context(), request("x"))
		require.NoError(t, err)
		require.Len(t, answer.Results, 1)
		require.Eventually(t, func() bool { return stream() != nil }, jstest.Timeout, time.Millisecond)
		reply, err := q.nc.Request(labels.SubjectFeedback, []byte(`{"id":"late","label":"violation","response":"A text."}`), jstest.Timeout)
		require.NoError(t, err)
		require.Equal(t, "503", reply.Header.Get("Nats-Service-Error-Code"))
		require.Contains(t, string(reply.Data), "no space left on device")
		require.Contains(t, string(reply.Data), "free space")

		require.NoError(t, os.Remove(ballast))
		require.Eventually(t, func() bool { return q.Ready(t.Context()) == nil }, jstest.Timeout, 50*time.Millisecond)
		labelstest.Accepts(t, f, 0, 100, labelstest.Some(0, 100)...)
		labelstest.Accepts(t, f, 10, 0, labelstest.Some(1000*(round+1), 10)...)
		stored += 10
	}
	require.GreaterOrEqual(t, len(labelstest.Records(t, f)), stored)
	require.NoError(t, stream())
	awaitEmpty(t, q)
	require.GreaterOrEqual(t, jstest.Count(q.js, StreamRewards), streamed)
	require.Zero(t, jstest.Count(q.js, StreamDead))
	before := labelstest.Contents(f.Index())
	closeQueue(t, q)
	q = openQueue(t, cfg)
	labelstest.CaughtUp(t, q.Labels())
	require.Equal(t, before, labelstest.Contents(q.Labels().Index()))
	closeQueue(t, q) // before the disk is unmounted
}
