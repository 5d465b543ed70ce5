package localmodel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// "make install" puts the binary in PREFIX/bin and the model in PREFIX/share/assay/models.
func TestInstalledBinaryFindsItsModel(t *testing.T) {
	require.Equal(t, []string{"/usr/local/bin", "/usr/local", "/usr/local/share/assay"}, installed("/usr/local/bin/assay"))
}
