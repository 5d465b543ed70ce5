package httpjson

import (
	"compress/gzip"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/internal/payload"
	"assay/rewardmodel"
)

// compressFrom is the size in bytes from which compressing a response pays off.
const compressFrom = 4 << 10

// Encode renders value as encoding/json does, without escaping for HTML, and
// charges the memory. A nil reservation charges nothing.
func Encode(memory *rewardmodel.Reservation, value any) ([]byte, error) {
	return Render(memory, func(to io.Writer) error {
		return json.MarshalWrite(to, value, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false))
	})
}

// Render returns what write writes, and a newline. Nothing is sent before the
// whole body is rendered: a non-finite number becomes a 500, and a body that is
// too large a 413, not half a body.
func Render(memory *rewardmodel.Reservation, write func(io.Writer) error) ([]byte, error) {
	out := newBuffer(memory)
	if err := write(out); err != nil {
		return nil, err
	}
	_, err := out.Write([]byte{'\n'})
	return out.Bytes(), err
}

func newBuffer(memory *rewardmodel.Reservation) *payload.Buffer {
	return payload.NewBuffer(memory, failure.MaxReply, func(int64) error { return failure.ReplyTooLarge() })
}

// WriteJSON responds with value as JSON.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, value any) error {
	body, err := Encode(exchange.Of(r).Memory, value)
	if err != nil {
		return err
	}
	Write(w, r, status, body)
	return nil
}

// WriteChange responds to a request that has changed something. The response is not
// charged, since it is no larger than the request or a record: a 503 would ask the client
// to make the change again.
func WriteChange(w http.ResponseWriter, r *http.Request, status int, value any) error {
	return writeUncharged(w, r, status, value)
}

// WriteProbe responds to a probe. The response is small and is not charged:
// overload must not look like a process that is not alive.
func WriteProbe(w http.ResponseWriter, r *http.Request, status int, value any) error {
	return writeUncharged(w, r, status, value)
}

func writeUncharged(w http.ResponseWriter, r *http.Request, status int, value any) error {
	body, err := Encode(nil, value)
	if err != nil {
		return err
	}
	Write(w, r, status, body)
	return nil
}

// Fail writes the response to err, in the error format of
// the endpoint.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchange.Of(r)
	x.Err = err
	f := x.Failure(err)
	if f.Challenge != "" {
		w.Header().Set("WWW-Authenticate", f.Challenge)
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", RetrySeconds(f.RetryAfter))
	}
	status, body := f.Status(), any(failure.Response{Error: f.Body(x.ID)})
	if x.EncodeFailure != nil {
		status, body = x.EncodeFailure(f)
	}
	// Strings and numbers always encode, and an error is not charged.
	out, _ := Encode(nil, body)
	Write(w, r, status, out)
}

// RetrySeconds formats a Retry-After header. It rounds up: a client that retries
// too early only waits again.
func RetrySeconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}

// Write sends a complete JSON body, compressed if the client accepts that and it
// pays off.
func Write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", string(JSON))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Add("Vary", "Accept-Encoding")
	if len(body) >= compressFrom && acceptsGzip(r.Header.Values("Accept-Encoding")) {
		if smaller, err := compress(exchange.Of(r).Memory, body); err == nil { // an error means that memory is short
			header.Set("Content-Encoding", "gzip")
			body = smaller
		}
	}
	Send(w, r, status, body)
}

// sendChunk is the number of bytes after which the write deadline moves.
const sendChunk = 256 << 10

// Send writes a body whose headers are set. From here on the request holds only
// the body; a client that does not read it loses the connection.
func Send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	x := exchange.Of(r)
	x.Memory.ShrinkTo(int64(cap(body)))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if status == http.StatusOK {
		nameModel(w.Header(), x.Model)
	}
	w.WriteHeader(status)
	if len(body) <= sendChunk { // the buffers of the connection take most of it
		_, _ = w.Write(body) // #nosec G705 -- nothing is HTML; a disconnected client is not a failure of the service
		return
	}
	control := http.NewResponseController(w)
	start, sent := time.Now(), int64(0)
	for part := range slices.Chunk(body, sendChunk) {
		sent += int64(len(part))
		_ = control.SetWriteDeadline(x.Deadline(start, sent)) // a response recorder has none
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

func nameModel(header http.Header, model rewardmodel.ModelInfo) {
	if model.Version != "" {
		header.Set(exchange.VersionHeader, model.Version)
	}
	if model.Numerics != "" {
		header.Set(exchange.NumericsHeader, model.Numerics)
	}
}

func compress(memory *rewardmodel.Reservation, body []byte) ([]byte, error) {
	out := newBuffer(memory)
	z, _ := gzip.NewWriterLevel(out, gzip.BestSpeed) // the level is a valid one
	_, err := z.Write(body)
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

// acceptsGzip parses Accept-Encoding (RFC 9110, section 12.5.3): gzip is listed,
// or "*" is, and its weight is not 0.
func acceptsGzip(values []string) bool {
	star := false
	for _, part := range strings.Split(strings.Join(values, ","), ",") {
		coding, params, _ := strings.Cut(strings.ToLower(part), ";")
		weight, given := strings.CutPrefix(strings.TrimSpace(params), "q=")
		q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
		wanted := !given || (err == nil && q > 0)
		switch strings.TrimSpace(coding) {
		case "gzip", "x-gzip":
			return wanted
		case "*":
			star = wanted
		}
	}
	return star
}
