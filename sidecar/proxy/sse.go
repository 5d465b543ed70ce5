package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// serverEvent is one server-sent event, or a comment.
type serverEvent struct {
	raw     []byte // as received, with its blank line
	comment bool   // it has a comment
	kind    string // of "event:"
	data    []byte // of the "data:" lines, joined with line feeds; nil if there are none
}

// done is the data that ends the streams of chat completions and completions.
const done = "[DONE]"

func (e serverEvent) isDone() bool { return string(bytes.TrimSpace(e.data)) == done }

var errEventSize = errors.New("the upstream sent an event that is larger than --max-body")

// eventReader splits a stream of server-sent events (WHATWG HTML, section 9.2), whose
// lines end with LF, CR LF or CR.
type eventReader struct {
	r        *bufio.Reader
	limit    int64
	skipLF   bool // the last line ended with CR
	finished bool
}

func newEventReader(r io.Reader, limit int64) *eventReader {
	return &eventReader{r: bufio.NewReader(r), limit: limit}
}

// next returns the next event. Its error is io.EOF after the last one, before which it
// returns what remains without a blank line.
func (r *eventReader) next() (serverEvent, error) {
	var e serverEvent
	if r.finished {
		return e, io.EOF
	}
	for {
		start, end, err := r.line(&e)
		if err != nil {
			if errors.Is(err, io.EOF) {
				r.finished = true
				if end > start {
					e.field(e.raw[start:end])
				}
				if len(e.raw) > 0 {
					return e, nil
				}
			}
			return e, err
		}
		if end == start {
			return e, nil
		}
		e.field(e.raw[start:end])
	}
}

// line appends a line to e.raw and returns where it is without its terminator. It does
// not wait for the byte after a CR: an LF that arrives later begins what is read next.
func (r *eventReader) line(e *serverEvent) (start, end int, err error) {
	start = len(e.raw)
	for {
		c, err := r.r.ReadByte()
		if err != nil {
			return start, len(e.raw), err
		}
		if int64(len(e.raw)) >= r.limit {
			return 0, 0, errEventSize
		}
		e.raw = append(e.raw, c)
		afterCR := r.skipLF
		r.skipLF = c == '\r'
		switch {
		case c == '\n' && afterCR:
			start = len(e.raw) // the CR has ended the line
		case c == '\n' || c == '\r':
			end := len(e.raw) - 1
			r.completeCR(e)
			return start, end, nil
		}
	}
}

// completeCR appends the LF after a CR if it has arrived.
func (r *eventReader) completeCR(e *serverEvent) {
	if !r.skipLF || r.r.Buffered() == 0 {
		return
	}
	if next, err := r.r.Peek(1); err == nil && next[0] == '\n' {
		_, _ = r.r.Discard(1) // it is buffered
		e.raw, r.skipLF = append(e.raw, '\n'), false
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func (e *serverEvent) field(line []byte) {
	e.comment = e.comment || line[0] == ':'
	name, value, _ := bytes.Cut(bytes.TrimPrefix(line, byteOrderMark), []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.kind = string(value)
	case "data":
		if e.data != nil {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		if e.data == nil {
			e.data = []byte{}
		}
	}
}

// writeEvent writes an event with JSON, which has no line breaks, or done as data.
func writeEvent(w io.Writer, kind string, data []byte) error {
	var b bytes.Buffer
	if kind != "" {
		fmt.Fprintf(&b, "event: %s\n", kind)
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	_, err := w.Write(b.Bytes())
	return err
}
