package proxy

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Dividing a long text into pieces copies it once, not once per piece.
func TestTakeIsLinear(t *testing.T) {
	content := strings.Repeat("Größe. ", 1<<18)
	long := &text{wake: make(chan struct{}, 1), drained: make(chan struct{}, 1), closing: true}
	long.queued.WriteString(content)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rest := content
	for piece, more := long.take(t.Context(), nil); more; piece, more = long.take(t.Context(), nil) {
		require.LessOrEqual(t, len(piece), maxPiece)
		require.True(t, strings.HasPrefix(rest, piece))
		rest = rest[len(piece):]
	}
	runtime.ReadMemStats(&after)
	require.Empty(t, rest)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*len(content)))
}
