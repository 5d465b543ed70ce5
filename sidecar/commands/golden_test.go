package commands_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// golden reads a file of testdata.
func golden(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(data)
}

// update writes a golden file when UPDATE_GOLDEN is set.
func update(t testing.TB, name, content string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(filepath.Join("testdata", name), []byte(content), 0o644))
	}
}
