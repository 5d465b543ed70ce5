package poison

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/xid"
	"github.com/stretchr/testify/require"
)

// BenchmarkJournal measures the record of a delivery.
func BenchmarkJournal(b *testing.B) {
	j, err := NewJournal(filepath.Join(b.TempDir(), "in-flight"), xid.New(), time.Now(), 256)
	require.NoError(b, err)
	defer j.Close()
	for sequence := uint64(1); b.Loop(); sequence++ {
		j.Begin(sequence).End()
	}
}
