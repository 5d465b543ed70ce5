package processtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// configMap is a directory like a ConfigMap that Kubernetes mounts: its entries are
// links through ..data, which is replaced atomically.
type configMap struct {
	t       *testing.T
	Dir     string
	version int
}

// MountConfigMap returns a directory with the configuration file content.
func MountConfigMap(t *testing.T, content string) *configMap {
	t.Helper()
	m := &configMap{t: t, Dir: t.TempDir()}
	m.Swap(content)
	require.NoError(t, os.Symlink("..data/assay.yaml", m.Path()))
	return m
}

// Path is the path of the configuration file.
func (m *configMap) Path() string { return filepath.Join(m.Dir, "assay.yaml") }

// Swap replaces the configuration file.
func (m *configMap) Swap(content string) {
	m.t.Helper()
	m.version++
	data := "..2026_" + strings.Repeat("1", m.version)
	require.NoError(m.t, os.Mkdir(filepath.Join(m.Dir, data), 0o755))
	require.NoError(m.t, os.WriteFile(filepath.Join(m.Dir, data, "assay.yaml"), []byte(content), 0o600))
	next := filepath.Join(m.Dir, "..data_tmp")
	require.NoError(m.t, os.Symlink(data, next))
	require.NoError(m.t, os.Rename(next, filepath.Join(m.Dir, "..data")))
}
