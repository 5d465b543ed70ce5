package httpjson

import (
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

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/internal/payload"
)

// discardLimit is how much of an oversized body is read and discarded, so that a
// client that sends everything before it reads sees the 413 rather than a broken
// connection.
const discardLimit = 64 << 20

// ReadBody returns the body of r, decompressed, and its media type, which must be
// one of accepted. It reads at most Limits.MaxBody bytes, charges them to the
// exchange before it reads them, and waits neither longer than the deadline of
// r's context nor for a client that sends too slowly.
func ReadBody(w http.ResponseWriter, r *http.Request, accepted ...MediaType) ([]byte, MediaType, error) {
	kind, err := mediaTypeOf(r.Header.Get("Content-Type"), accepted)
	if err != nil {
		return nil, "", err
	}
	body, err := read(w, r)
	return body, kind, err
}

func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	x := exchange.Of(r)
	maxBody := x.Limits().MaxBody
	if r.ContentLength > maxBody {
		discard(r, control, maxBody)
		return nil, failure.BodyTooLarge(maxBody)
	}
	wire := newWireReader(r, http.MaxBytesReader(w, r.Body, maxBody), control, x.Settings)
	defer func() { x.BytesIn = wire.count }()
	plain, err := decompress(wire, r.Header.Get("Content-Encoding"), x.Memory)
	var body []byte
	if err == nil {
		defer plain.Close()
		body, err = payload.ReadAll(plain, maxBody, r.ContentLength, x.Memory, failure.BodyTooLarge(maxBody))
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		_ = control.SetReadDeadline(time.Time{})
		return body, nil
	case errors.As(wire.err, &tooLarge):
		discard(r, control, maxBody)
		return nil, failure.BodyTooLarge(maxBody)
	case wire.err != nil:
		return nil, wireError(r.Context(), wire.err, wire.count, x.MinRate)
	default:
		return nil, err
	}
}

// discard reads on after a body turned out too large, unless the client waits
// for a "100 Continue" or has far too much left to send.
func discard(r *http.Request, control *http.ResponseController, maxBody int64) {
	if r.Header.Get("Expect") == "" && r.ContentLength <= maxBody+discardLimit {
		_, _ = io.CopyN(io.Discard, newWireReader(r, r.Body, control, exchange.Of(r).Settings), discardLimit)
	}
}

// MediaType is the media type of a body.
type MediaType string

// The media types of request bodies.
const (
	JSON   MediaType = "application/json"
	NDJSON MediaType = "application/x-ndjson" // one JSON object per line
)

// mediaTypeOf parses a Content-Type: one of those accepted, in UTF-8. A request
// without the header sends JSON. The types that a web form can send are rejected
// like all others.
func mediaTypeOf(value string, accepted []MediaType) (MediaType, error) {
	if value == "" {
		return JSON, nil
	}
	name, params, err := mime.ParseMediaType(value)
	kind := MediaType(name)
	switch {
	case err != nil:
		kind = ""
	case name == "application/ndjson", name == "application/jsonl":
		kind = NDJSON
	case strings.HasPrefix(name, "application/") && strings.HasSuffix(name, "+json"):
		kind = JSON
	}
	if !slices.Contains(accepted, kind) {
		names := make([]string, len(accepted))
		for i, a := range accepted {
			names[i] = string(a)
		}
		return "", failure.UnsupportedMediaType("Content-Type", "%.100q is not JSON; send Content-Type: %s", value, strings.Join(names, " or "))
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return "", failure.UnsupportedMediaType("Content-Type", "charset %.50q is not supported; send UTF-8", charset)
	}
	return kind, nil
}

// wireReader distinguishes failures of the connection from those of a decoder
// above it, and counts the bytes that arrive. As they arrive, it extends the read
// deadline of the connection, up to the deadline of the request. So does the time
// between two reads, in which a decoder works: the client does not cause it.
type wireReader struct {
	body  io.Reader
	count int64
	err   error

	extend   func(decoding time.Duration, count int64)
	next     int64         // count at which extend is called again
	returned time.Time     // end of the last read
	decoding time.Duration // between reads, in all
	extended time.Duration // decoding when extend was called
}

const (
	// extendEvery is the number of bytes after which the read deadline moves.
	extendEvery = 64 << 10
	// extendAfter is the time of decoding after which it moves.
	extendAfter = 10 * time.Millisecond
)

func newWireReader(r *http.Request, body io.Reader, control *http.ResponseController, settings *exchange.Settings) *wireReader {
	start := time.Now()
	end, bounded := r.Context().Deadline()
	return &wireReader{body: body, returned: start, extend: func(decoding time.Duration, count int64) {
		due := settings.Deadline(start.Add(decoding), count)
		if bounded && end.Before(due) {
			due = end
		}
		// After a failure the deadline stays for what net/http still reads. A
		// response recorder has no deadline.
		_ = control.SetReadDeadline(due)
	}}
}

func (w *wireReader) Read(p []byte) (int, error) {
	w.decoding += time.Since(w.returned)
	if w.count >= w.next || w.decoding-w.extended >= extendAfter {
		w.next, w.extended = w.count+extendEvery, w.decoding
		w.extend(w.decoding, w.count)
	}
	n, err := w.body.Read(p)
	w.returned = time.Now()
	w.count += int64(n)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// wireError says why a body did not arrive: too slow, cut off, or malformed
// framing.
func wireError(ctx context.Context, err error, received, minRate int64) error {
	var network net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		if end, bounded := ctx.Deadline(); bounded && !time.Now().Before(end) {
			return fmt.Errorf("the body did not arrive: %w", context.DeadlineExceeded)
		}
		return failure.TooSlow(received, minRate)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return fmt.Errorf("reading the body: %w: %w", err, context.Canceled)
	default:
		return failure.Invalid("", "the body cannot be read: %v", err)
	}
}
