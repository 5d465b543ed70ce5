package api

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"assay/rewardmodel"
)

// compressFrom is the size in bytes from which an answer is worth compressing.
const compressFrom = 4 << 10

// maxReply bounds a rendered body in bytes, compressed or not.
const maxReply = 64 << 20

// reply is a body that is being rendered. It is charged as it grows, and fails
// before it is larger than maxReply.
type reply struct {
	memory *rewardmodel.Reservation
	body   []byte
}

// Write implements io.Writer.
func (p *reply) Write(data []byte) (int, error) {
	size := len(p.body) + len(data)
	if size > maxReply {
		return 0, errReplyTooLarge()
	}
	if size > cap(p.body) {
		larger, err := regrow(p.body, int64(max(size, cap(p.body)*3/2)), p.memory)
		if err != nil {
			return 0, err
		}
		p.body = larger
	}
	p.body = append(p.body, data...)
	return len(data), nil
}

// encode renders value as encoding/json does, without escaping for HTML.
func encode(memory *rewardmodel.Reservation, value any) ([]byte, error) {
	return render(memory, func(to io.Writer) error {
		return json.MarshalWrite(to, value, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false))
	})
}

// render returns what write writes, and a line break. Nothing is sent before the
// whole body is there: a number that is not finite becomes a 500, and a body
// that is too large a 413, not half a body.
func render(memory *rewardmodel.Reservation, write func(io.Writer) error) ([]byte, error) {
	out := &reply{memory: memory}
	if err := write(out); err != nil {
		return nil, err
	}
	_, err := out.Write([]byte{'\n'})
	return out.body, err
}

// writeJSON answers with value as JSON.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, status int, value any) error {
	body, err := encode(exchangeOf(r).memory, value)
	if err != nil {
		return err
	}
	s.write(w, r, status, body)
	return nil
}

// write sends a whole JSON body, compressed when that is asked for and helps.
func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Add("Vary", "Accept-Encoding")
	if len(body) >= compressFrom && acceptsGzip(r.Header.Values("Accept-Encoding")) {
		if smaller, err := compress(exchangeOf(r).memory, body); err == nil { // else there is no memory for it
			header.Set("Content-Encoding", "gzip")
			body = smaller
		}
	}
	s.send(w, r, status, body)
}

// sendEvery is after how many bytes the deadline of a connection moves.
const sendEvery = 256 << 10

// send writes a body whose headers are set. All that is held by now is the body;
// a client that does not read it loses the connection.
func (s *Server) send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	exchangeOf(r).memory.ShrinkTo(int64(cap(body)))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if len(body) <= sendEvery { // the buffers of the connection take most of it
		_, _ = w.Write(body) // a client that left is not ours to report
		return
	}
	control := http.NewResponseController(w)
	start, sent := time.Now(), int64(0)
	for part := range slices.Chunk(body, sendEvery) {
		sent += int64(len(part))
		_ = control.SetWriteDeadline(s.paced(start, sent)) // a recorder has none
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

func compress(memory *rewardmodel.Reservation, body []byte) ([]byte, error) {
	out := &reply{memory: memory}
	z, _ := gzip.NewWriterLevel(out, gzip.BestSpeed) // the level is a valid one
	_, err := z.Write(body)
	return out.body, errors.Join(err, z.Close())
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3): named, or by
// "*", and not with a weight of 0.
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
