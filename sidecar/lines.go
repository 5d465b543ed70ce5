package main

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

// inputFlags are those of every command that reads lines.
type inputFlags struct {
	File    string `arg:"" optional:"" help:"Input file; without one, or with -, standard input."`
	Text    bool   `help:"Each line is a text as it stands, not JSON."`
	SkipBad bool   `help:"Report bad lines and go on, instead of stopping with exit code 2."`
}

// lineError says what is wrong with one line of the input.
type lineError struct {
	Name string // of the file; "" for standard input
	Line int    // counted from 1
	Err  error
}

func (e *lineError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("%s: line %d: %v", e.Name, e.Line, e.Err)
}

func (e *lineError) Unwrap() error { return e.Err }

// input is an open source of lines.
type input struct {
	name   string // "" for standard input
	size   int64  // in bytes; -1 when unknown
	reader *bufio.Reader
	io.Closer
}

// readAhead is large, since whoever reads takes what is there as a batch.
const readAhead = 1 << 20

func (f inputFlags) open(a *app) (*input, error) {
	if f.File == "" || f.File == "-" {
		return &input{size: -1, reader: bufio.NewReaderSize(a.stdin, readAhead), Closer: io.NopCloser(nil)}, nil
	}
	file, err := os.Open(f.File)
	if err != nil {
		return nil, usageError{err}
	}
	in := &input{name: f.File, size: -1, reader: bufio.NewReaderSize(file, readAhead), Closer: file}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		in.size = info.Size()
	}
	return in, nil
}

// item decodes a line that is a response to score.
func (f inputFlags) item(line []byte) (rewardmodel.Item, error) {
	if f.Text {
		return rewardmodel.Item{Response: new(string(line))}, nil
	}
	return wire.DecodeItem(line)
}

// idle tells that the next line may be long in coming.
func (in *input) idle() bool { return in.reader.Buffered() == 0 }

// record is one decoded line.
type record[T any] struct {
	line  int
	bytes int // of the line, its end included
	value T
}

// records decodes the lines of in. A bad line ends the sequence with a
// *lineError, or is reported and left out with --skip-bad. Lines of white space
// are no records, unless they are texts.
func records[T any](a *app, f inputFlags, in *input, decode func([]byte) (T, error)) iter.Seq2[record[T], error] {
	return func(yield func(record[T], error) bool) {
		for number := 1; ; number++ {
			raw, err := in.reader.ReadBytes('\n')
			if err != nil && err != io.EOF {
				yield(record[T]{}, fmt.Errorf("reading line %d: %w", number, err))
				return
			}
			text := bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
			if number == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff"))
			}
			if len(raw) > 0 && (f.Text || len(bytes.TrimSpace(text)) > 0) {
				value, fault := decode(text)
				if fault != nil {
					fault = &lineError{Name: in.name, Line: number, Err: fault}
				}
				if fault != nil && f.SkipBad {
					a.skipped(fault)
				} else if !yield(record[T]{number, len(raw), value}, fault) || fault != nil {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

func (a *app) skipped(err error) { a.log.Warn().Err(err).Msg("skipped a bad line") }

// textRecord is the input of segment and tokenize.
type textRecord struct {
	ID   *string `json:"id"`
	Text *string `json:"text"`
}

// texts yields the id and the text of each record. One without an id is called
// by the number of its line.
func texts(a *app, f inputFlags, in *input) iter.Seq2[[2]string, error] {
	decode := func(line []byte) (r textRecord, err error) {
		if f.Text {
			return textRecord{Text: new(string(line))}, nil
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return r, fmt.Errorf(`is not an object {"id"?,"text"}: %w`, err)
		}
		if r.Text == nil {
			return r, fmt.Errorf(`text is missing; write {"id":"...","text":"..."}`)
		}
		return r, nil
	}
	return func(yield func([2]string, error) bool) {
		for r, err := range records(a, f, in, decode) {
			if err != nil {
				yield([2]string{}, err)
				return
			}
			id := fmt.Sprint(r.line)
			if r.value.ID != nil {
				id = *r.value.ID
			}
			if !yield([2]string{id, *r.value.Text}, nil) {
				return
			}
		}
	}
}

// lineWriter writes JSON values, one a line. It keeps them while more input is
// at hand.
type lineWriter struct{ buffer *bufio.Writer }

func newLineWriter(w io.Writer) lineWriter { return lineWriter{bufio.NewWriterSize(w, 1<<16)} }

// write appends a value. Text that is not valid UTF-8 is written with U+FFFD in
// place of each broken byte, so that no line is lost to it.
func (w lineWriter) write(value any) error {
	if err := json.MarshalWrite(w.buffer, value, jsontext.AllowInvalidUTF8(true)); err != nil {
		return err
	}
	return w.buffer.WriteByte('\n')
}

// eachText writes what make gives for each text of the input, in order.
func eachText(a *app, f inputFlags, make func(id, text string) (any, error)) (err error) {
	in, err := f.open(a)
	if err != nil {
		return err
	}
	defer in.Close()
	out := newLineWriter(a.stdout)
	for record, fault := range texts(a, f, in) {
		var value any
		if err = fault; err == nil {
			value, err = make(record[0], record[1])
		}
		if err == nil {
			err = out.write(value)
		}
		if err == nil && in.idle() {
			err = out.buffer.Flush()
		}
		if err != nil {
			break
		}
	}
	if flushed := out.buffer.Flush(); err == nil || flushed != nil {
		return flushed
	}
	return err
}
