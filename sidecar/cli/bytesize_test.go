package cli

import (
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]ByteSize{
		"0": 0, "17": 17, "64MiB": 64 << 20, "1 GiB": 1 << 30, "2kB": 2000, "3B": 3, " 5MB ": 5e6, "8TiB": 8 << 40,
	} {
		var b ByteSize
		require.NoError(t, b.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, b, text)
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "9999999999GiB", "1XB", "0x10"} {
		require.Error(t, new(ByteSize).UnmarshalText([]byte(text)), text)
	}
}

func TestByteSizeRoundTrip(t *testing.T) {
	for b, want := range map[ByteSize]string{0: "0", 1000: "1000", 1 << 10: "1KiB", 1536: "1536", 64 << 20: "64MiB", 3 << 40: "3TiB"} {
		require.Equal(t, want, b.String())
		var again ByteSize
		require.NoError(t, again.UnmarshalText([]byte(b.String())))
		require.Equal(t, b, again)
	}
}

func TestDefaultsFormatDurationsWithoutZeroUnits(t *testing.T) {
	got := Defaults(map[string]any{"a": 10 * time.Minute, "b": 168 * time.Hour, "c": 90 * time.Second, "d": 0.02, "e": time.Duration(0), "f": 100 * time.Millisecond})
	require.Equal(t, kong.Vars{"a": "10m", "b": "168h", "c": "1m30s", "d": "0.02", "e": "0s", "f": "100ms"}, got)
}
