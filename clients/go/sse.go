package assay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// maxLineBytes limits a line of an event stream.
const maxLineBytes = 16 << 20

// eventReader reads server-sent events (WHATWG HTML, section 9.2).
type eventReader struct {
	lines  *bufio.Scanner
	onLine func() // called for each line
}

func newEventReader(r io.Reader, onLine func()) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLineBytes)
	return &eventReader{lines, onLine}
}

// next returns the id of the next event itself, "" if it has none, its kind and its data.
// It returns io.EOF at the end of the stream, where it drops an incomplete event.
func (r *eventReader) next() (id, kind string, data []byte, err error) {
	hasData := false
	for r.lines.Scan() {
		r.onLine()
		line := r.lines.Bytes()
		if len(line) == 0 {
			if hasData {
				return id, kind, data, nil
			}
			id, kind = "", ""
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			id = string(value)
		case "event":
			kind = string(value)
		case "data":
			if hasData {
				data = append(data, '\n')
			}
			data, hasData = append(data, value...), true
		}
	}
	if err := r.lines.Err(); err != nil {
		return "", "", nil, fmt.Errorf("reading events: %w", err)
	}
	return "", "", nil, io.EOF
}
