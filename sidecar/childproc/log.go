package childproc

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
)

// lineCutter cuts what is written into lines. What a line has beyond lineMost bytes is dropped.
type lineCutter struct {
	each func(line []byte) // nil: the lines are dropped
	line []byte
}

// Write is called by one goroutine at a time.
func (w *lineCutter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		w.line = append(w.line, part[:min(len(part), maxLine-len(w.line))]...)
		if rest = after; whole {
			w.flush()
		}
	}
	return len(p), nil
}

// flush hands over a last line that has no end.
func (w *lineCutter) flush() {
	if len(w.line) > 0 && w.each != nil {
		w.each(w.line)
	}
	w.line = w.line[:0]
}

// relogger makes the log lines of a child ours and keeps the last ones.
type relogger struct {
	log  zerolog.Logger
	tail []string
}

func (r *relogger) line(text []byte) {
	level, message, fields := zerolog.WarnLevel, string(text), map[string]any{} // a crash of libtorch writes no JSON
	if json.Unmarshal(text, &fields) == nil {
		if said, ok := fields[zerolog.LevelFieldName].(string); ok {
			if known, err := zerolog.ParseLevel(said); err == nil {
				level = known
			}
		}
		message, _ = fields[zerolog.MessageFieldName].(string)
		for _, ours := range []string{zerolog.LevelFieldName, zerolog.MessageFieldName, zerolog.TimestampFieldName} {
			delete(fields, ours)
		}
	} else {
		fields = nil // what was read of it
	}
	r.log.WithLevel(level).Fields(fields).Msg(message)
	if r.tail = append(r.tail, message); len(r.tail) > maxErrorLines {
		r.tail = r.tail[1:]
	}
}

// last is what an error repeats of them.
func (r *relogger) last() string {
	if len(r.tail) == 0 {
		return ""
	}
	return ": " + strings.Join(r.tail, " | ")
}
