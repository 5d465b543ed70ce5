package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// compressFrom is the size in bytes from which an answer is worth compressing.
const compressFrom = 4 << 10

// encode renders value as JSON, without escaping for HTML.
func encode(value any) ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return buf.Bytes(), err
}

// writeJSON answers with value as JSON.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, status int, value any) error {
	body, err := encode(value)
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
		header.Set("Content-Encoding", "gzip")
		body = compress(body)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left is not ours to report
}

func compress(body []byte) []byte {
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed) // the level is a valid one
	_, _ = z.Write(body)                              // a buffer takes all
	_ = z.Close()
	return buf.Bytes()
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
