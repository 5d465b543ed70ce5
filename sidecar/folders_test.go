package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assay-ai/assay/rewardmodel/retrain"
)

// A name that no version can have is unknown like any other that nobody gave: a client that pins it is told so, and
// not to come again later.
func TestFoldersOfNoVersion(t *testing.T) {
	f := folders{initial: "v1", model: "given", cache: t.TempDir()}
	dir, err := f.Folder(t.Context(), "v1")
	require.NoError(t, err)
	require.Equal(t, "given", dir)
	for _, version := range []string{"", "org/name", "..", ".hidden", `a\b`, "a\x00", "nobody"} {
		_, err := f.Folder(t.Context(), version)
		require.ErrorIs(t, err, retrain.ErrNoModel, version)
	}
}
