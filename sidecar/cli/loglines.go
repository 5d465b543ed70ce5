package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"assay/rewardmodel"
)

// maxLogLine is the largest line of the log, in bytes, whatever is logged: a
// stack trace fits, a value of a client's choice need not.
const maxLogLine = 32 << 10

// shortLines bounds the lines that a logger writes, one JSON object each. It is
// the last resort: what clients send is bounded where it is decoded.
type shortLines struct{ w io.Writer }

// Write implements io.Writer.
func (s shortLines) Write(line []byte) (int, error) {
	if len(line) <= maxLogLine {
		return s.w.Write(line)
	}
	if _, err := s.w.Write(shortLine(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// shortLine shortens the texts of a line that is too large, and all of it when
// that does not help.
func shortLine(line []byte) []byte {
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
	short, _ := json.Marshal(map[string]any{"level": "error", "message": "a log line is too large", "bytes": len(line)}) // always encodes
	return append(short, '\n')
}
