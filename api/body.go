package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"assay/rewardmodel"
)

// drainLimit is how much of an oversized body is read and thrown away, so that
// a client that sends everything before it reads sees the 413 rather than a
// broken connection.
const drainLimit = 64 << 20

// readBody returns the body of r, decompressed, and its media type, once its
// headers say that this is among those wanted. It holds at most Config.MaxBody
// bytes of it, charged to the exchange before they are read, and waits neither
// longer than the deadline of r's context nor for a client that is too slow.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, wanted ...media) ([]byte, media, error) {
	kind, err := mediaOf(r.Header.Get("Content-Type"), wanted)
	if err != nil {
		return nil, "", err
	}
	body, err := s.read(w, r)
	return body, kind, err
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	maxBody := s.limits.Load().maxBody
	if r.ContentLength > maxBody {
		s.drain(r, control, maxBody)
		return nil, errBodyTooLarge(maxBody)
	}

	x := exchangeOf(r)
	wire := s.wire(r, http.MaxBytesReader(w, r.Body, maxBody), control)
	defer func() { x.bytesIn = wire.count }()
	plain, err := decompress(wire, r.Header.Get("Content-Encoding"), x.memory)
	var body []byte
	if err == nil {
		defer plain.Close()
		body, err = readAll(plain, maxBody, r.ContentLength, x.memory)
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		_ = control.SetReadDeadline(time.Time{})
		return body, nil
	case errors.As(wire.err, &tooLarge):
		s.drain(r, control, maxBody)
		return nil, errBodyTooLarge(maxBody)
	case wire.err != nil:
		return nil, s.wireError(r.Context(), wire.err, wire.count)
	default:
		return nil, err
	}
}

// drain reads on after a body turned out too large, unless the client waits
// for a "100 Continue" or has far too much left.
func (s *Server) drain(r *http.Request, control *http.ResponseController, maxBody int64) {
	if r.Header.Get("Expect") == "" && r.ContentLength <= maxBody+drainLimit {
		_, _ = io.CopyN(io.Discard, s.wire(r, r.Body, control), drainLimit)
	}
}

// media is a media type of a body.
type media string

const (
	mediaJSON  media = "application/json"
	mediaLines media = "application/x-ndjson" // one JSON object a line
)

// mediaOf reads a Content-Type: one of those wanted, in UTF-8. A request that
// names none sends JSON. The types that a web form can send are refused with all
// others.
func mediaOf(value string, wanted []media) (media, error) {
	if value == "" {
		return mediaJSON, nil
	}
	name, params, err := mime.ParseMediaType(value)
	kind := media(name)
	switch {
	case err != nil:
		kind = ""
	case name == "application/ndjson", name == "application/jsonl":
		kind = mediaLines
	case strings.HasPrefix(name, "application/") && strings.HasSuffix(name, "+json"):
		kind = mediaJSON
	}
	if !slices.Contains(wanted, kind) {
		names := make([]string, len(wanted))
		for i, w := range wanted {
			names[i] = string(w)
		}
		return "", errMediaType("Content-Type", "%.100q is not JSON; send Content-Type: %s", value, strings.Join(names, " or "))
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return "", errMediaType("Content-Type", "charset %.50q is not supported; send UTF-8", charset)
	}
	return kind, nil
}

// zstdWindow is the largest window that RFC 8878 asks every decoder to take.
const zstdWindow = 8 << 20

func decompress(r io.Reader, encoding string, memory *rewardmodel.Reservation) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return io.NopCloser(r), nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, errInvalid("Content-Encoding", "the body is not gzip: %v", err)
		}
		return &decoder{"gzip", z}, nil
	case "zstd":
		return newZstdReader(r, memory)
	default:
		return nil, errMediaType("Content-Encoding", "%.50q is not supported; send gzip, zstd or no encoding", encoding)
	}
}

// newZstdReader decompresses zstd. The window that the first frame asks for is charged
// until the reader is closed; a later frame may not ask for a larger one.
func newZstdReader(r io.Reader, memory *rewardmodel.Reservation) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 4<<10)
	window := windowOf(buffered)
	const blocks = 512 << 10 // of 128 KiB: two next to the window, one compressed, one of literals
	if err := memory.Grow(int64(window) + blocks); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, errInvalid("Content-Encoding", "the body is not zstd: %v", err)
	}
	return &chargedReader{&decoder{"zstd", z.IOReadCloser()}, memory, int64(window) + blocks}, nil
}

// windowOf is the window of the frame that r begins with, at least minWindow so
// that the frames behind a small one have room.
func windowOf(r *bufio.Reader) uint64 {
	const minWindow = 1 << 20
	start, _ := r.Peek(zstd.HeaderMaxSize) // the decoder fails in the same way
	var header zstd.Header
	if err := header.Decode(start); err != nil || header.Skippable {
		return zstdWindow
	}
	window := header.WindowSize
	if header.SingleSegment {
		window = header.FrameContentSize
	}
	return min(max(window, minWindow), zstdWindow)
}

// chargedReader gives memory back when it is closed.
type chargedReader struct {
	io.ReadCloser
	memory *rewardmodel.Reservation
	bytes  int64
}

// Close implements io.Closer.
func (c *chargedReader) Close() error {
	c.memory.Shrink(c.bytes)
	return c.ReadCloser.Close()
}

// decoder says which encoding a broken body was in.
type decoder struct {
	name string
	io.ReadCloser
}

func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a stream ends with io.EOF itself; a wrapped one is a failure
		err = errInvalid("Content-Encoding", "the body is not whole %s: %v", d.name, err)
	}
	return n, err
}

// readAll reads all of r, or fails as soon as there is more than limit, or more
// than memory allows. The client's word on the size is believed up to 64 KiB.
func readAll(r io.Reader, limit, size int64, memory *rewardmodel.Reservation) ([]byte, error) {
	body, err := regrow(nil, min(max(size, 0), 64<<10)+bytes.MinRead, memory)
	if err != nil {
		return nil, err
	}
	for {
		if len(body) == cap(body) {
			more := int64(cap(body)/4 + 64<<10)
			if body, err = regrow(body, min(int64(cap(body))+more, limit+bytes.MinRead), memory); err != nil {
				return nil, err
			}
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, errBodyTooLarge(limit)
		case err == io.EOF: //nolint:errorlint // a stream ends with io.EOF itself
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// regrow moves a body to a buffer of the given size. Both are charged while it
// copies.
func regrow(body []byte, size int64, memory *rewardmodel.Reservation) ([]byte, error) {
	if err := memory.Grow(size); err != nil {
		return nil, err
	}
	larger := append(make([]byte, 0, size), body...)
	memory.Shrink(int64(cap(body)))
	return larger, nil
}

// wireReader tells failures of the connection from those of a decoder above
// it, and counts what came in. As bytes arrive, it moves the deadline of the
// connection; the deadline of the request is the last.
type wireReader struct {
	body  io.Reader
	count int64
	err   error

	due  func(count int64)
	next int64 // count from which due is called again
}

// paceEvery is after how many bytes the deadline of a connection moves.
const paceEvery = 64 << 10

func (s *Server) wire(r *http.Request, body io.Reader, control *http.ResponseController) *wireReader {
	start := time.Now()
	end, bounded := r.Context().Deadline()
	return &wireReader{body: body, due: func(count int64) {
		due := s.paced(start, count)
		if bounded && end.Before(due) {
			due = end
		}
		// After a failure the deadline stays for what net/http still reads; a
		// recorder has none.
		_ = control.SetReadDeadline(due)
	}}
}

func (w *wireReader) Read(p []byte) (int, error) {
	if w.count >= w.next {
		w.next = w.count + paceEvery
		w.due(w.count)
	}
	n, err := w.body.Read(p)
	w.count += int64(n)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// wireError names why a body did not arrive: too slow, cut off, or framed
// wrongly.
func (s *Server) wireError(ctx context.Context, err error, read int64) error {
	var network net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		if end, bounded := ctx.Deadline(); bounded && !time.Now().Before(end) {
			return fmt.Errorf("the body did not arrive: %w", context.DeadlineExceeded)
		}
		return s.errSlow(read)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return fmt.Errorf("reading the body: %w: %w", err, context.Canceled)
	default:
		return errInvalid("", "the body cannot be read: %v", err)
	}
}
