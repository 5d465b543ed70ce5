package bag

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
)

// LineError is an error in one line of a bag file.
type LineError struct {
	Line  int    // counted from 1
	Field string // path of the offending field ("messages/0/role"), "" when the line is not a JSON object
	Err   error
}

// Error names the line, the field and the fault, in this order.
func (e *LineError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %s: %v", e.Line, e.Field, e.Err)
}

// Unwrap returns the fault itself.
func (e *LineError) Unwrap() error { return e.Err }

// Read yields the bags of a JSONL stream, whose lines may be of any length.
// Blank lines are skipped and unknown fields ignored. A bad line yields a
// *LineError; the sequence continues with the next line, so that a caller
// may report and skip it. A failing r ends the sequence with its
// error.
func Read(r io.Reader) iter.Seq2[Bag, error] {
	return func(yield func(Bag, error) bool) {
		buffered := bufio.NewReaderSize(r, 1<<16)
		for line := 1; ; line++ {
			text, err := buffered.ReadBytes('\n')
			if err != nil && err != io.EOF {
				yield(Bag{}, fmt.Errorf("line %d: %w", line, err))
				return
			}
			if text = bytes.TrimSpace(text); len(text) > 0 {
				b, field, fault := decode(text, whole)
				if fault != nil {
					fault = &LineError{Line: line, Field: field, Err: fault}
				}
				if !yield(b, fault) {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}
