package cli

import (
	"testing"

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
