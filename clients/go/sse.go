package assay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// longestLine is the most that a line of a stream of events may hold, in bytes.
const longestLine = 16 << 20

// eventReader reads server-sent events (WHATWG HTML, section 9.2).
type eventReader struct {
	lines *bufio.Scanner
	alive func() // called at each line
}

func newEventReader(r io.Reader, alive func()) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), longestLine)
	return &eventReader{lines, alive}
}

// next returns the kind and the data of the next event. io.EOF is the end of
// the stream; an event that was not finished before is dropped.
func (r *eventReader) next() (kind string, data []byte, err error) {
	held := false
	for r.lines.Scan() {
		r.alive()
		line := r.lines.Bytes()
		if len(line) == 0 {
			if held {
				return kind, data, nil
			}
			kind = ""
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			if held {
				data = append(data, '\n')
			}
			data, held = append(data, value...), true
		}
	}
	if err := r.lines.Err(); err != nil {
		return "", nil, fmt.Errorf("reading events: %w", err)
	}
	return "", nil, io.EOF
}
