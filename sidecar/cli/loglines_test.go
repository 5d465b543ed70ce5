package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestLogLinesAreShort(t *testing.T) {
	var out bytes.Buffer
	c := GlobalFlags{LogLevel: "info", LogFormat: FormatJSON}
	log := c.Logger(&out, &LogLevel{})
	log.Info().Str("model", strings.Repeat("v", 16<<20)).Int("n", 7).Msg("kept")
	log.Info().Dict("inner", zerolog.Dict().Str("deep", strings.Repeat("v", 1<<20))).Msg("lost")
	log.Info().Msg("short")
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	require.Len(t, lines, 3)
	var fields []map[string]any
	for _, line := range lines {
		require.LessOrEqual(t, len(line), maxLogLine)
		var f map[string]any
		require.NoError(t, json.Unmarshal(line, &f))
		fields = append(fields, f)
	}
	require.Equal(t, "kept", fields[0]["message"])
	require.EqualValues(t, 7, fields[0]["n"])
	require.Equal(t, "log line too large", fields[1]["message"])
	require.Equal(t, "short", fields[2]["message"])
}
