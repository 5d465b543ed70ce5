package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// names lists a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600))
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, WriteFile(path, []byte("old"), 0o600))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	require.NoError(t, WriteFile(path, []byte("new"), 0o600))
	require.Equal(t, "new", content(t, path))

	failure := errors.New("the source failed")
	err = WriteTo(path, 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, failure)
	})
	require.ErrorIs(t, err, failure)
	require.Equal(t, "new", content(t, path))
	require.Equal(t, "file", names(t, dir))
	require.ErrorIs(t, CreateFile(path, 0o600, func(io.Writer) error { return nil }), fs.ErrExist)
	require.Equal(t, "new", content(t, path), "CreateFile does not touch what exists")
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "missing", "file"), nil, 0o600), fs.ErrNotExist)
}

// A killed writer leaves a temporary file, which a later writer removes once it is old
// enough.
func TestWriteFileRemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	old, young := tempPrefix(path)+"1", tempPrefix(path)+"2"
	for _, name := range []string{old, young} {
		require.True(t, IsTemp(name))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	past := time.Now().Add(-2 * leftoverAge)
	require.NoError(t, os.Chtimes(filepath.Join(dir, old), past, past))
	require.NoError(t, WriteFile(path, nil, 0o600))
	require.Equal(t, young+" file", names(t, dir))
	require.False(t, IsTemp("file"))
}

func TestWritersAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	texts := map[string]bool{}
	var group sync.WaitGroup
	for i := range 8 {
		text := strings.Repeat(strconv.Itoa(i), 100_000)
		texts[text] = true
		group.Go(func() {
			if err := WriteFile(path, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.True(t, texts[content(t, path)], "a mix of two writers")
	require.Equal(t, "file", names(t, dir))
}

func TestLock(t *testing.T) {
	for name, path := range map[string]string{"file": filepath.Join(t.TempDir(), "lock"), "directory": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			first, err := TryLock(path)
			require.NoError(t, err)
			_, err = TryLock(path)
			require.ErrorIs(t, err, ErrLocked)
			require.ErrorContains(t, err, path)
			waiting := make(chan *Lock)
			go func() {
				second, err := WaitLock(path)
				if err != nil {
					t.Error(err)
				}
				waiting <- second
			}()
			require.NoError(t, first.Unlock())
			require.NoError(t, first.Unlock())
			second := <-waiting
			require.NoError(t, second.Unlock())
		})
	}
	require.NoError(t, (*Lock)(nil).Unlock())
	_, err := TryLock(filepath.Join(t.TempDir(), "missing", "lock"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestBuildDir(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	build := func(text string, err error) error {
		return BuildDir(dir, 0o755, func(tmp string) error { write(t, tmp, text); return err })
	}
	require.NoError(t, build("one", nil))
	require.NoError(t, build("two", nil))
	require.Equal(t, "two", content(t, filepath.Join(dir, "file")))
	failure := errors.New("the device went away")
	require.ErrorIs(t, build("three", failure), failure)
	require.Equal(t, "two", content(t, filepath.Join(dir, "file")))
	require.Equal(t, "model", names(t, parent))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
}

// Leftovers of killed processes are removed, directories of running ones are not.
func TestBuildDirSweeps(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	write(t, filepath.Join(parent, ".model.new-123"), "half")
	tmp, held, err := begin(dir, 0o755)
	require.NoError(t, err)
	fill := func(tmp string) error { write(t, tmp, "whole"); return nil }
	require.NoError(t, BuildDir(dir, 0o755, fill))
	require.Equal(t, filepath.Base(tmp)+" model", names(t, parent))
	require.NoError(t, held.Unlock())
	require.NoError(t, BuildDir(dir, 0o755, fill))
	require.Equal(t, "model", names(t, parent))
}

// Without an atomic exchange, a crash may leave only the renamed old directory.
func TestSurvivorOfACrashBetweenRenames(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	require.Equal(t, dir, Survivor(dir))
	write(t, asideName(dir), "old")
	require.Equal(t, asideName(dir), Survivor(dir))
	require.NoError(t, Restore(dir))
	require.Equal(t, dir, Survivor(dir))
	require.Equal(t, "old", content(t, filepath.Join(dir, "file")))
	write(t, asideName(dir), "older")
	require.NoError(t, Restore(dir))
	require.Equal(t, "model", names(t, parent), "what could not be removed goes")
}

func TestRenameAside(t *testing.T) {
	parent := t.TempDir()
	dir, tmp := filepath.Join(parent, "model"), filepath.Join(parent, "tmp")
	write(t, dir, "old")
	write(t, tmp, "new")
	require.NoError(t, renameAside(tmp, dir, asideName(dir)))
	require.Equal(t, ".model.old model", names(t, parent))
	require.Error(t, renameAside(tmp, dir, asideName(dir)), "replaced by nothing")
	require.Equal(t, "new", content(t, filepath.Join(dir, "file")), "the directory is put back")
}

// Readers see one complete directory, whatever writers do.
func TestBuildDirAtTheSameTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	build := func(text string) error {
		return BuildDir(dir, 0o755, func(tmp string) error {
			return errors.Join(os.WriteFile(filepath.Join(tmp, "a"), []byte(text), 0o600), os.WriteFile(filepath.Join(tmp, "b"), []byte(text), 0o600))
		})
	}
	require.NoError(t, build("first"))
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for range 10 {
				if err := build(strconv.Itoa(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 100 {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		a, errA := root.ReadFile("a")
		b, errB := root.ReadFile("b")
		if errA == nil && errB == nil { // otherwise it was removed after it was replaced
			require.Equal(t, string(a), string(b))
		}
		require.NoError(t, root.Close())
	}
	group.Wait()
}
