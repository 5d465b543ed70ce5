package childproc

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
)

// lineSplitter splits its input into lines. The part of a line beyond maxLine bytes is dropped.
type lineSplitter struct {
	each func(line []byte) // nil: the lines are dropped
	line []byte
}

// Write is called by one goroutine at a time.
func (w *lineSplitter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		w.line = append(w.line, part[:min(len(part), maxLine-len(w.line))]...)
		if rest = after; whole {
			w.flush()
		}
	}
	return len(p), nil
}

// flush passes on the buffered line, which may lack a terminator.
func (w *lineSplitter) flush() {
	if len(w.line) > 0 && w.each != nil {
		w.each(w.line)
	}
	w.line = w.line[:0]
}

// logForwarder writes the log lines of a child to a logger, and keeps the last ones.
type logForwarder struct {
	log  zerolog.Logger
	tail []string
}

func (r *logForwarder) line(text []byte) {
	level, message, fields := zerolog.WarnLevel, string(text), map[string]any{} // libtorch does not log JSON when it crashes
	if json.Unmarshal(text, &fields) == nil {
		if name, ok := fields[zerolog.LevelFieldName].(string); ok {
			if known, err := zerolog.ParseLevel(name); err == nil {
				level = known
			}
		}
		message, _ = fields[zerolog.MessageFieldName].(string)
		for _, field := range []string{zerolog.LevelFieldName, zerolog.MessageFieldName, zerolog.TimestampFieldName} {
			delete(fields, field)
		}
	} else {
		fields = nil // discard partially decoded fields
	}
	r.log.WithLevel(level).Fields(fields).Msg(message)
	if r.tail = append(r.tail, message); len(r.tail) > maxErrorLines {
		r.tail = r.tail[1:]
	}
}

// last formats the last lines for an error.
func (r *logForwarder) last() string {
	if len(r.tail) == 0 {
		return ""
	}
	return ": " + strings.Join(r.tail, " | ")
}
