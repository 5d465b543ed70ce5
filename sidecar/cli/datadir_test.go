package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultDataDir(t *testing.T) {
	for _, c := range []struct {
		goos, want  string
		environment map[string]string
	}{
		{"linux", "/x/assay", map[string]string{"XDG_DATA_HOME": "/x", "HOME": "/h"}},
		{"linux", "/h/.local/share/assay", map[string]string{"XDG_DATA_HOME": "relative", "HOME": "/h"}},
		{"linux", "assay-data", map[string]string{"HOME": "/"}},
		{"linux", "assay-data", nil},
		{"darwin", "/h/Library/Application Support/assay", map[string]string{"HOME": "/h"}},
	} {
		require.Equal(t, c.want, DefaultDataDir(func(name string) string { return c.environment[name] }, c.goos))
	}
}
