package extproc

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"sync/atomic"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// chunkBytes is the maximum size of a piece of a body.
const chunkBytes = 64 << 10

// metadataNamespace is that of the dynamic metadata.
const metadataNamespace = "assay"

// responseWriter sends what the handler writes to Envoy: as the body of the upstream's
// response if it has the same status, otherwise as an immediate response.
type responseWriter struct {
	exchange *exchange
	header   http.Header
	bodyless atomic.Bool // the response of the upstream has no body

	of        *http.Response // of the upstream; nil: none has arrived
	original  http.Header    // of that response, which the handler may change
	status    int            // 0: not written yet
	immediate *bytes.Buffer  // nil: the response of the upstream continues
	err       error
}

// upstream is called on the goroutine of the handler.
func (w *responseWriter) upstream(r *http.Response) { w.of, w.original = r, r.Header.Clone() }

// Header implements [http.ResponseWriter].
func (w *responseWriter) Header() http.Header { return w.header }

// Flush implements [http.Flusher]: nothing is buffered.
func (w *responseWriter) Flush() {}

// WriteHeader implements [http.ResponseWriter].
func (w *responseWriter) WriteHeader(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.status = status
	if w.of == nil || status != w.of.StatusCode {
		w.immediate = &bytes.Buffer{}
		return
	}
	w.send(&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{
		Response: &extproc.CommonResponse{HeaderMutation: mutation(w.original, w.header)},
	}}})
}

// Write implements [http.ResponseWriter].
func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.immediate != nil {
		return w.immediate.Write(p)
	}
	for chunk := range slices.Chunk(p, chunkBytes) {
		w.send(bodyPart(bytes.Clone(chunk), false))
	}
	return len(p), w.err
}

// finish ends the response once the handler has returned.
func (w *responseWriter) finish() error {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.immediate != nil:
		w.send(&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extproc.ImmediateResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(w.status)}, //nolint:gosec // a status of HTTP
			Headers: mutation(nil, w.header), Body: w.immediate.Bytes(),
		}}})
	case w.exchange.trailers.Load():
		m := &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extproc.TrailersResponse{}}}
		w.sendLast(m)
	case !w.bodyless.Load():
		w.sendLast(bodyPart(nil, true))
	}
	return w.err
}

// sendLast adds the verdict to the last message about a body.
func (w *responseWriter) sendLast(m *extproc.ProcessingResponse) {
	m.DynamicMetadata = w.verdict()
	w.send(m)
}

// verdict is the dynamic metadata; nil: none.
func (w *responseWriter) verdict() *structpb.Struct {
	name := http.CanonicalHeaderKey(w.exchange.config.VerdictHeader)
	value := w.header.Get(name)
	if value == "" {
		value = w.header.Get(http.TrailerPrefix + name)
	}
	var fields map[string]any
	if value == "" || json.Unmarshal([]byte(value), &fields) != nil {
		return nil
	}
	metadata, err := structpb.NewStruct(map[string]any{metadataNamespace: fields})
	if err != nil {
		return nil
	}
	return metadata
}

func (w *responseWriter) send(m *extproc.ProcessingResponse) {
	if w.err == nil {
		w.err = w.exchange.send(m)
	}
}

func bodyPart(p []byte, end bool) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseBody{ResponseBody: &extproc.BodyResponse{
		Response: &extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{
			Mutation: &extproc.BodyMutation_StreamedResponse{StreamedResponse: &extproc.StreamedBodyResponse{Body: p, EndOfStream: end}},
		}},
	}}}
}
