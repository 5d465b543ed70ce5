package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"assay/rewardmodel"
)

// maxLogLine is the maximum size of a log line in bytes. A stack trace fits; a
// value that a client sends need not.
const maxLogLine = 32 << 10

// lineLimiter limits the lines that a logger writes, one JSON object each. It is
// the last resort: client input is limited where it is decoded.
type lineLimiter struct{ w io.Writer }

// Write implements io.Writer.
func (s lineLimiter) Write(line []byte) (int, error) {
	if len(line) <= maxLogLine {
		return s.w.Write(line)
	}
	if _, err := s.w.Write(truncateLine(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// truncateLine shortens the string fields of a line, or replaces the line if that
// is not enough.
func truncateLine(line []byte) []byte {
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if d.Decode(&fields) == nil {
		for name, value := range fields {
			if text, ok := value.(string); ok {
				fields[name] = rewardmodel.Shorten(text)
			}
		}
		if short, err := json.Marshal(fields); err == nil && len(short) <= maxLogLine {
			return append(short, '\n')
		}
	}
	short, _ := json.Marshal(map[string]any{"level": "error", "message": "log line too large", "bytes": len(line)}) // always encodes
	return append(short, '\n')
}
