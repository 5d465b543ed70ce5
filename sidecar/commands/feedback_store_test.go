package commands

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyOldExportsAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "back[up]*")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, name := range []string{
		"feedback-20260101T000000Z.assay", "feedback-20260102T000000Z.assay", "feedback-20260103T000000Z.assay",
		"feedback-1.assay", "feedback-before-migration.assay", "feedback-20251231T000000Z.assay.gz",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "feedback-20250101T000000Z.assay"), 0o700))
	require.NoError(t, removeOldExports(dir, 2))
	require.NoFileExists(t, filepath.Join(dir, "feedback-20260101T000000Z.assay"))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 6)
	require.NoError(t, removeOldExports(dir, 2), "again")
}
