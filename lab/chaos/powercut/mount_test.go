package powercut_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/lab/chaos/powercut"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mounted is a disk that a test sees as a directory.
type mounted struct {
	t     *testing.T
	disk  *powercut.Disk
	dir   string
	mount *powercut.Mount
}

// mount skips the test where that is not permitted.
func mount(t *testing.T) *mounted {
	t.Helper()
	m := &mounted{t: t, disk: powercut.NewDisk(), dir: t.TempDir()}
	var err error
	if m.mount, err = m.disk.Mount(m.dir); err != nil {
		t.Skipf("no file system of the test can be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, m.mount.Unmount()) })
	return m
}

// cut is a power cut.
func (m *mounted) cut(seed uint64) {
	m.t.Helper()
	m.offline(func() { m.disk.PowerCut(rand.New(rand.NewPCG(seed, 0))) })
}

// offline calls f while nothing is mounted.
func (m *mounted) offline(f func()) {
	m.t.Helper()
	require.NoError(m.t, m.mount.Unmount())
	f()
	var err error
	m.mount, err = m.disk.Mount(m.dir)
	require.NoError(m.t, err)
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

func (m *mounted) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(m.path(name))
	require.NoError(m.t, err)
	return string(data)
}

// seeds are many enough that each kind of loss occurs.
const seeds = 20

func TestSyncedDataSurvivesAPowerCut(t *testing.T) {
	for seed := range uint64(seeds) {
		m := mount(t)
		require.NoError(t, os.Mkdir(m.path("dir"), 0o700))
		synced, err := os.Create(m.path("dir/synced"))
		require.NoError(t, err)
		_, err = synced.WriteString("kept")
		require.NoError(t, err)
		require.NoError(t, synced.Sync())
		_, err = synced.WriteString(" maybe")
		require.NoError(t, err)
		require.NoError(t, synced.Close())
		through, err := os.OpenFile(m.path("through"), os.O_CREATE|os.O_WRONLY|syscall.O_SYNC, 0o600)
		require.NoError(t, err)
		_, err = through.WriteString("kept too")
		require.NoError(t, err)
		require.NoError(t, through.Close())
		m.cut(seed)
		require.Equal(t, "kept", m.read("dir/synced")[:4])
		require.Equal(t, "kept too", m.read("through"))
	}
}

func TestUnsyncedDataIsLostInEveryWay(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(10 * seeds) {
		m := mount(t)
		f, err := os.Create(m.path("file"))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		for _, part := range []string{"aa", "bb"} {
			_, err = f.WriteString(part)
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
		m.cut(seed)
		seen[m.read("file")] = true
	}
	for _, content := range []string{"", "a", "aa", "aab", "aabb", "\x00\x00bb"} {
		require.True(t, seen[content], "%q of %v", content, seen)
	}
}

func TestNamesAreLostFromTheEnd(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(10 * seeds) {
		m := mount(t)
		require.NoError(t, os.WriteFile(m.path("old"), nil, 0o600))
		require.NoError(t, os.WriteFile(m.path("gone"), nil, 0o600))
		dir, err := os.Open(m.dir)
		require.NoError(t, err)
		require.NoError(t, dir.Sync())
		require.NoError(t, dir.Close())
		require.NoError(t, os.Rename(m.path("old"), m.path("new")))
		require.NoError(t, os.Remove(m.path("gone")))
		m.cut(seed)
		entries, err := os.ReadDir(m.dir)
		require.NoError(t, err)
		names := ""
		for _, e := range entries {
			names += e.Name() + " "
		}
		seen[names] = true
	}
	require.Equal(t, map[string]bool{"gone old ": true, "gone new ": true, "new ": true}, seen)
}

func TestConditions(t *testing.T) {
	m := mount(t)
	f, err := os.Create(m.path("file"))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("before")
	require.NoError(t, err)
	for condition, want := range map[powercut.Condition]syscall.Errno{
		powercut.Full: syscall.ENOSPC, powercut.ReadOnly: syscall.EROFS, powercut.Failing: syscall.EIO,
	} {
		m.disk.Set(condition)
		_, err = f.WriteString("more")
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, os.Mkdir(m.path("dir"), 0o700), want)
		require.Equal(t, "before", m.read("file"))
	}
	m.disk.Set(powercut.Failing)
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	m.disk.Set(powercut.Full)
	_, err = f.WriteAt([]byte("B"), 0)
	require.NoError(t, err, "it does not grow")
	m.disk.Set(powercut.Slow)
	require.NoError(t, f.Sync())
	m.disk.Set(powercut.Working)
	_, err = f.WriteString("more")
	require.NoError(t, err)
	_, err = os.Stat(m.path("dir"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestDamageAtRest(t *testing.T) {
	m := mount(t)
	for _, name := range []string{"flipped", "zeroed", "cut"} {
		require.NoError(t, os.WriteFile(m.path(name), []byte("aaaa"), 0o600))
	}
	m.offline(func() {
		require.Equal(t, map[string]int64{"/flipped": 4, "/zeroed": 4, "/cut": 4}, m.disk.Files())
		m.disk.FlipBit("/flipped", 9)
		m.disk.Tear("/zeroed", 2, true)
		m.disk.Tear("/cut", 3, false)
	})
	require.Equal(t, "acaa", m.read("flipped"))
	require.Equal(t, "aa\x00\x00", m.read("zeroed"))
	require.Equal(t, "aaa", m.read("cut"))
}
