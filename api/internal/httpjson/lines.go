package httpjson

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/internal/payload"
)

// lineStart is the capacity in bytes that a line begins with.
const lineStart = 4 << 10

// Lines reads a body that its client writes over time, line by line.
type Lines struct {
	ctx     context.Context
	x       *exchange.Exchange
	control *http.ResponseController
	wire    *wireReader
	from    *bufio.Reader
	line    []byte
	limit   int64
}

// ReadLines returns a reader of the body of r, whose media type must be one of accepted.
// Lines of more than Limits.MaxBody bytes are rejected; the body as a whole has no
// limit. Until [Lines.Wait] the client must not send too slowly.
func ReadLines(w http.ResponseWriter, r *http.Request, accepted ...MediaType) (*Lines, error) {
	if _, err := mediaTypeOf(r.Header.Get("Content-Type"), accepted); err != nil {
		return nil, err
	}
	if coding := strings.TrimSpace(r.Header.Get("Content-Encoding")); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, failure.UnsupportedMediaType("Content-Encoding", "%.50q is not supported for a body that is read as it arrives; send no encoding", coding)
	}
	x := exchange.Of(r)
	l := &Lines{ctx: r.Context(), x: x, control: http.NewResponseController(w), limit: x.Limits().MaxBody}
	l.wire = newWireReader(r, r.Body, l.control, x.Settings)
	l.from = bufio.NewReaderSize(l.wire, lineStart)
	var err error
	l.line, err = payload.Grow(nil, lineStart, x.Memory)
	return l, err
}

// Wait lets the client send as slowly as it likes from now on.
func (l *Lines) Wait() {
	l.wire.extend = func(time.Duration, int64) {}
	_ = l.control.SetReadDeadline(time.Time{}) // a response recorder has none
}

// Stop makes Next return within the timeout, and net/http not wait for longer when it
// discards the rest of the body.
func (l *Lines) Stop(timeout time.Duration) {
	_ = l.control.SetReadDeadline(time.Now().Add(timeout))
}

// Count returns the number of bytes read. Do not call it during Next.
func (l *Lines) Count() int64 { return l.wire.count }

// Next returns the next line that is not empty, without its end, until the next call;
// io.EOF after the last. The last line needs no newline.
func (l *Lines) Next() ([]byte, error) {
	for {
		line, err := l.next()
		if line = bytes.TrimSpace(line); err != nil || len(line) > 0 {
			return line, err
		}
	}
}

func (l *Lines) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		part, err := l.from.ReadSlice('\n')
		if err := l.append(part); err != nil {
			return nil, err
		}
		switch {
		case err == nil:
			return l.line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(l.line) > 0: //nolint:errorlint // a stream ends with io.EOF itself
			return l.line, nil
		case err == io.EOF: //nolint:errorlint // as above
			return nil, io.EOF
		case l.ctx.Err() != nil:
			return nil, fmt.Errorf("reading the body: %w", context.Cause(l.ctx))
		default:
			return nil, wireError(l.ctx, err, l.wire.count, l.x.MinRate)
		}
	}
}

func (l *Lines) append(part []byte) (err error) {
	need := int64(len(l.line) + len(part))
	if need > l.limit {
		return failure.TooLarge("", "a line is larger than %d bytes; send the text in smaller pieces, or raise --max-body", l.limit)
	}
	if need > int64(cap(l.line)) {
		if l.line, err = payload.Grow(l.line, min(need+need/4, l.limit), l.x.Memory); err != nil {
			return err
		}
	}
	l.line = append(l.line, part...)
	return nil
}
