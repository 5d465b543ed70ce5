package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// InputFlags are the flags of every command that reads lines.
type InputFlags struct {
	File    string `arg:"" optional:"" help:"Input file; standard input if omitted or -."`
	Text    bool   `help:"Read each line as plain text instead of JSON."`
	SkipBad bool   `help:"Log and skip invalid lines instead of failing with exit code 2."`
}

// LineError reports an invalid line of the input.
type LineError struct {
	Name string // of the file; "" for standard input
	Line int    // counted from 1
	Err  error
}

// Error names the file and the line.
func (e *LineError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("%s: line %d: %v", e.Name, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Input is an open source of lines.
type Input struct {
	Name   string // "" for standard input
	Size   int64  // in bytes; -1 when unknown
	Reader *bufio.Reader
	io.Closer
}

// readAhead is large because readers take all buffered lines as one batch.
const readAhead = 1 << 20

// Open opens the file, or standard input. The caller closes it.
func (f InputFlags) Open(a *App) (*Input, error) {
	if f.File == "" || f.File == "-" {
		return &Input{Size: -1, Reader: bufio.NewReaderSize(a.Stdin, readAhead), Closer: io.NopCloser(nil)}, nil
	}
	file, err := os.Open(f.File)
	if err != nil {
		return nil, Usage(err)
	}
	in := &Input{Name: f.File, Size: -1, Reader: bufio.NewReaderSize(file, readAhead), Closer: file}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		in.Size = info.Size()
	}
	return in, nil
}

// Item decodes a line that is a response to score.
func (f InputFlags) Item(line []byte) (rewardmodel.Item, error) {
	if f.Text {
		return rewardmodel.Item{Response: new(string(line))}, nil
	}
	return wire.DecodeItem(line)
}

// Idle reports whether no input is buffered, so that reading the next line may block.
func (in *Input) Idle() bool { return in.Reader.Buffered() == 0 }

// Record is one decoded line.
type Record[T any] struct {
	Line  int
	Bytes int // of the line, including its terminator
	Value T
}

// Records decodes the lines of in. An invalid line ends the sequence with a
// *LineError, or is logged and skipped with --skip-bad. Blank lines are skipped,
// except with --text.
func Records[T any](a *App, f InputFlags, in *Input, decode func([]byte) (T, error)) iter.Seq2[Record[T], error] {
	return func(yield func(Record[T], error) bool) {
		for number := 1; ; number++ {
			raw, err := in.Reader.ReadBytes('\n')
			if err != nil && err != io.EOF {
				yield(Record[T]{}, fmt.Errorf("reading line %d: %w", number, err))
				return
			}
			text := bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
			if number == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff"))
			}
			if len(raw) > 0 && (f.Text || len(bytes.TrimSpace(text)) > 0) {
				value, fault := decode(text)
				if fault != nil {
					fault = &LineError{Name: in.Name, Line: number, Err: fault}
				}
				if fault != nil && f.SkipBad {
					a.ReportSkipped(fault)
				} else if !yield(Record[T]{number, len(raw), value}, fault) || fault != nil {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// ReportSkipped logs an invalid line that --skip-bad skips.
func (a *App) ReportSkipped(err error) { a.Log.Warn().Err(err).Msg("skipped an invalid line") }

// textRecord is the input of segment and tokenize.
type textRecord struct {
	ID   *string `json:"id"`
	Text *string `json:"text"`
}

// texts yields the id and the text of each record. The id of a record without
// one is its line number.
func texts(a *App, f InputFlags, in *Input) iter.Seq2[[2]string, error] {
	decode := func(line []byte) (r textRecord, err error) {
		if f.Text {
			return textRecord{Text: new(string(line))}, nil
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return r, fmt.Errorf(`not an object {"id"?,"text"}: %w`, err)
		}
		if r.Text == nil {
			return r, fmt.Errorf(`text is missing; write {"id":"...","text":"..."}`)
		}
		return r, nil
	}
	return func(yield func([2]string, error) bool) {
		for r, err := range Records(a, f, in, decode) {
			if err != nil {
				yield([2]string{}, err)
				return
			}
			id := fmt.Sprint(r.Line)
			if r.Value.ID != nil {
				id = *r.Value.ID
			}
			if !yield([2]string{id, *r.Value.Text}, nil) {
				return
			}
		}
	}
}

// LineWriter writes JSON values, one per line, through a buffer: call Flush when
// the input is idle and at the end.
type LineWriter struct{ buffer *bufio.Writer }

// NewLineWriter writes to w; call Flush at the end.
func NewLineWriter(w io.Writer) LineWriter { return LineWriter{bufio.NewWriterSize(w, 1<<16)} }

// Write appends a value. Each invalid UTF-8 byte of a text is written as U+FFFD,
// so that it does not cost the line.
func (w LineWriter) Write(value any) error {
	if err := json.MarshalWrite(w.buffer, value, jsontext.AllowInvalidUTF8(true)); err != nil {
		return err
	}
	return w.buffer.WriteByte('\n')
}

// Flush writes the buffered lines.
func (w LineWriter) Flush() error { return w.buffer.Flush() }

// EachText writes the result of make for each text of the input, in order.
func EachText(a *App, f InputFlags, make func(id, text string) (any, error)) (err error) {
	in, err := f.Open(a)
	if err != nil {
		return err
	}
	defer in.Close()
	out := NewLineWriter(a.Stdout)
	for record, fault := range texts(a, f, in) {
		var value any
		if err = fault; err == nil {
			value, err = make(record[0], record[1])
		}
		if err == nil {
			err = out.Write(value)
		}
		if err == nil && in.Idle() {
			err = out.Flush()
		}
		if err != nil {
			break
		}
	}
	if flushed := out.Flush(); err == nil || flushed != nil {
		return flushed
	}
	return err
}
