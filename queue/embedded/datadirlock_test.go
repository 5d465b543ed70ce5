package embedded

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDataDirHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holder, err := DataDirHolder(dir)
	require.NoError(t, err)
	require.Empty(t, holder)
	require.NoFileExists(t, dir+"/lock")
	lock, err := lockDataDir(dir)
	require.NoError(t, err)
	holder, err = DataDirHolder(dir)
	require.NoError(t, err)
	require.NotEmpty(t, holder)
	require.NoError(t, lock.Unlock())
	holder, err = DataDirHolder(dir)
	require.NoError(t, err)
	require.Empty(t, holder, "a stale file is not a lock")
}
