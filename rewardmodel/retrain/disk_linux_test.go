package retrain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A training run whose files cannot be written reports why, and does not count as one
// that kills its service.
func TestLoopNamesTheDisk(t *testing.T) {
	full := fmt.Errorf("writing bags.jsonl: %w", &os.PathError{Op: "write", Path: "bags.jsonl", Err: syscall.ENOSPC})
	for name, tc := range map[string]struct {
		dir      func(*testing.T) string
		worker   error
		wantText string
	}{
		"full while it trains":   {(*testing.T).TempDir, full, "no space left on the disk of "},
		"full while it collects": {fullDisk, nil, "no space left on the disk of "},
		"read-only":              {readOnlyDisk, nil, "the last time with: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			f.label(0, 60)
			dir := tc.dir(t)
			defer f.start(t, "a", dir, &process{worker: func(context.Context) error { return tc.worker }})()
			out := f.ended(t, 1)
			require.Equal(t, ResultFailed, out.Result)
			require.Contains(t, out.Reason, tc.wantText)
			require.Contains(t, out.Reason, dir)
			require.NotContains(t, out.Reason, "died")
		})
	}
}

func mount(t *testing.T, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, "size=64k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func readOnlyDisk(t *testing.T) string { return mount(t, syscall.MS_RDONLY) }

// fullDisk returns a directory of a full disk.
func fullDisk(t *testing.T) string {
	disk := mount(t, 0)
	filler, err := os.Create(filepath.Join(disk, "filler"))
	require.NoError(t, err)
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	dir := filepath.Join(disk, "runs") // other files of its parent stay
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}
