package filewatch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchReportsEachChangeAndFailureOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	write := func(content []byte) { require.NoError(t, os.WriteFile(path, content, 0o600)) }
	write([]byte("one"))
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		file := New(path)
		content, err := file.Read()
		require.NoError(t, err)
		require.Equal(t, "one", string(content))
		var changes []string
		var failures []error
		go file.Watch(ctx, func(content []byte) { changes = append(changes, string(content)) }, func(err error) { failures = append(failures, err) })
		poll := func() {
			<-time.After(3 * Period)
			synctest.Wait()
		}
		poll()
		require.Empty(t, changes)

		write([]byte("two"))
		poll()
		require.Equal(t, []string{"two"}, changes)

		require.NoError(t, os.Remove(path))
		poll()
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], fs.ErrNotExist)
		write(bytes.Repeat([]byte("#"), MaxBytes+1))
		poll()
		require.Len(t, failures, 2)
		require.False(t, errors.Is(failures[1], fs.ErrNotExist))
		require.ErrorContains(t, failures[1], "larger than")

		write([]byte("three"))
		poll()
		require.Equal(t, []string{"two", "three"}, changes)
	})
}
