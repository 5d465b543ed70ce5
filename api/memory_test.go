package api_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	rpcstatus "google.golang.org/grpc/status"

	"assay/api"
	"assay/api/oip/inference"
	"assay/rewardmodel"
)

// mustNotScore is a scorer that must not be called.
var mustNotScore = scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return rewardmodel.ScoreResponse{}, errors.New("the request was scored")
})

func memory(t *testing.T, limit int64) *rewardmodel.Memory {
	t.Helper()
	m, err := rewardmodel.NewMemory(limit, nil)
	require.NoError(t, err)
	return m
}

func within(m *rewardmodel.Memory) option { return parts(func(p *api.Parts) { p.Memory = m }) }

// Millions of empty texts are rejected while they are decoded, in every protocol:
// only a few items are allocated.
func TestEmptyTextsAreNotAllocated(t *testing.T) {
	const n = 2 << 20
	s := start(t, mustNotScore)
	empty := strings.Repeat(`"",`, n)
	binaryHead := fmt.Sprintf(`{"inputs":[{"name":"text","shape":[%d],"datatype":"BYTES","parameters":{"binary_data_size":%d}}]}`, n, 4*n)
	for name, c := range map[string]struct {
		path, body string
		headers    []string
	}{
		"embeddings":      {"/v1/embeddings", `{"input":[` + empty + `""]}`, nil},
		"moderations":     {"/v1/moderations", `{"input":[` + empty + `""]}`, nil},
		"TEI":             {"/predict", `{"inputs":[` + empty + `""]}`, nil},
		"TEI, a batch":    {"/predict", `{"inputs":[` + strings.Repeat(`[""],`, n) + `[""]]}`, nil},
		"vLLM":            {"/classify", `{"input":[` + empty + `""]}`, nil},
		"SGLang":          {"/classify", `{"text":[` + empty + `""]}`, nil},
		"vLLM, pairs":     {"/score", `{"text_1":"a","text_2":[` + empty + `""]}`, nil},
		"OpenRLHF":        {"/get_reward", `{"query":[` + empty + `""]}`, nil},
		"OpenRLHF, more":  {"/get_reward", `{"query":["a"],"prompts":[` + empty + `""]}`, nil},
		"FMS":             {"/api/v1/text/contents", `{"contents":[` + empty + `""]}`, nil},
		"LiteLLM":         {guardrail, `{"texts":[` + empty + `""]}`, nil},
		"OIP":             {"/v2/models/assay/infer", `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":[` + empty + `""]}]}`, nil},
		"OIP, a shape":    {"/v2/models/assay/infer", fmt.Sprintf(`{"inputs":[{"name":"text","shape":[%d],"datatype":"BYTES","data":[`, n+1) + empty + `""]}]}`, nil},
		"OIP, inputs":     {"/v2/models/assay/infer", `{"inputs":[` + strings.Repeat(`{},`, n) + `{}]}`, nil},
		"OIP, outputs":    {"/v2/models/assay/infer", `{"inputs":[],"outputs":[` + strings.Repeat(`{},`, n) + `{}]}`, nil},
		"OIP, binary":     {"/v2/models/assay/infer", binaryHead + strings.Repeat("\x00", 4*n), []string{"Content-Type", "application/octet-stream", "Inference-Header-Content-Length", fmt.Sprint(len(binaryHead))}},
		"native":          {"/v1/score", `{"responses":[{"instances":[` + empty + `""]}]}`, nil},
		"native messages": {"/v1/score", `{"responses":[{"messages":[` + strings.Repeat(`{"role":"","content":""},`, n/2) + `{"role":"","content":""}]}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var a answer
			bytes := allocated(func() { a = s.do(t, "POST", c.path, strings.NewReader(c.body), c.headers...) })
			require.Contains(t, []int{400, 413, 422}, a.StatusCode, "%s", a.body)
			// Reading a body into a growing buffer allocates about six times as much,
			// plus what is rejected at its limit.
			require.Less(t, bytes, uint64(10*len(c.body)+32<<20), "%s", a.body)
		})
	}
}

func TestGRPCEmptyTextsAreNotAllocated(t *testing.T) {
	s := startRPC(t, mustNotScore)
	in := texts("a")
	in.RawInputContents = make([][]byte, 2<<20)
	var err error
	require.Less(t, allocated(func() { _, err = infer(t, s, in) }), uint64(64<<20))
	requireStatus(t, err, codes.ResourceExhausted, "send fewer texts per call")
}

// The results of a request have a size limit, which applies before the first byte is
// sent.
func TestReplyTooLarge(t *testing.T) {
	instances := make([]rewardmodel.Instance, 100_000)
	s := start(t, scorerFunc(func(_ context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		results := make([]rewardmodel.Result, 20)
		for i := range results {
			results[i].Instances = instances
		}
		return rewardmodel.ScoreResponse{Results: results}, nil
	}))
	a := s.score(t, `{"responses":[{"response":"a"}]}`)
	require.Equal(t, 413, a.StatusCode)
	code, _, message := a.failure(t)
	require.Equal(t, "too_large", code)
	require.Contains(t, message, `"options":{"instances":false}`)
}

// hold starts a large request and never completes it.
func hold(t *testing.T, addr string, bytes int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{\"responses\":[{\"response\":\"%s", bytes+1000, strings.Repeat("a", bytes))
	require.NoError(t, err)
	return conn
}

// replied reports whether the service has ended a request of hold.
func replied(t *testing.T, conn net.Conn) bool {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// Stalled bodies hold memory: large requests get 503, and small ones still fit.
func TestMemoryIsShared(t *testing.T) {
	m := memory(t, 64<<20)
	s := start(t, scorerOf(t, &model{}, 0), within(m))
	large := `{"responses":[{"response":"` + strings.Repeat("a b. ", 200_000) + `"}]}`
	require.Equal(t, 200, s.score(t, large).StatusCode)

	held := []net.Conn{hold(t, s.addr, 12<<20), hold(t, s.addr, 12<<20)}
	var a answer
	require.Eventually(t, func() bool {
		for i, conn := range held {
			if replied(t, conn) { // its buffer grew while another one did, or while a request was scored
				held[i] = hold(t, s.addr, 12<<20)
			}
		}
		a = s.score(t, large)
		return a.StatusCode == http.StatusServiceUnavailable
	}, timeout, 10*time.Millisecond)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	code, _, message := a.failure(t)
	require.Equal(t, "overloaded", code)
	require.Contains(t, message, "request memory")
	require.Equal(t, 200, s.score(t, `{"responses":[{"response":"small"}]}`).StatusCode)
	require.NoError(t, errors.Join(held[0].Close(), held[1].Close()))
	require.Eventually(t, func() bool { return s.score(t, large).StatusCode == http.StatusOK }, timeout, 10*time.Millisecond, "closed connections hold no memory")
}

// A body without progress is ended long before the request timeout.
func TestSlowBodyIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		maxBody int64
		want    []string
	}{
		"slow":      {1 << 20, []string{" 504 ", "arrives too slowly"}},
		"too large": {100, []string{" 413 ", "larger than 100 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, mustNotScore, config(func(cfg *api.Config) {
				cfg.HeaderTimeout, cfg.RequestTimeout, cfg.MinRate, cfg.MaxBody = 500*time.Millisecond, time.Hour, 1<<30, c.maxBody
			}))
			conn := hold(t, s.addr, 1000)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(timeout)))
			reply, err := io.ReadAll(conn)
			require.NoError(t, err)
			for _, part := range c.want {
				require.Contains(t, string(reply), part)
			}
		})
	}
}

// free reports whether all memory is released.
func free(m *rewardmodel.Memory, limit int64) func() bool {
	return func() bool {
		r := m.Open()
		defer r.Close()
		return r.Grow(limit*3/4) == nil
	}
}

// An unread reply ends with the connection, and then holds no memory.
func TestUnreadReplyIsEnded(t *testing.T) {
	m := memory(t, 64<<20)
	instances := make([]rewardmodel.Instance, 400_000)
	s := start(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		return rewardmodel.ScoreResponse{Results: []rewardmodel.Result{{Instances: instances}}}, nil
	}), within(m), config(func(c *api.Config) { c.HeaderTimeout, c.MinRate = 500*time.Millisecond, 1<<30 }))
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	body := `{"responses":[{"response":"a"}]}`
	_, err = fmt.Fprintf(conn, "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !free(m, 64<<20)() }, timeout, time.Millisecond, "it holds the reply")
	require.Eventually(t, free(m, 64<<20), timeout, 10*time.Millisecond)
	require.NotNil(t, s.log.request(t))
}

// Names are echoed and logged, so their length is limited, field by field.
func TestLongNamesAreRejected(t *testing.T) {
	s := start(t, mustNotScore)
	long := strings.Repeat("v", 513)
	for _, c := range []struct{ path, body, field string }{
		{"/v1/score", `{"model":"%s","responses":[{"response":"x"}]}`, "model"},
		{"/v1/score", `{"responses":[{"id":"%s","response":"x"}]}`, "responses[0].id"},
		{"/v1/embeddings", `{"model":"%s","input":"x"}`, "model"},
		{"/v1/moderations", `{"model":"%s","input":"x"}`, "model"},
		{"/classify", `{"model":"%s","input":"x"}`, "model"},
		{"/score", `{"model":"%s","text_1":"x","text_2":"x"}`, "model"},
		{"/v2/models/assay/infer", `{"id":"%s","inputs":[]}`, "id"},
	} {
		a := s.do(t, "POST", c.path, strings.NewReader(fmt.Sprintf(c.body, long)))
		require.Equal(t, 400, a.StatusCode, "%s: %s", c.path, a.body)
		require.Contains(t, string(a.body), c.field)
		require.Contains(t, string(a.body), "has 513 bytes; use at most 512")
	}
}

// Quotes in errors are truncated, in the log and for the client.
func TestLogLinesAreShort(t *testing.T) {
	s := start(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		return rewardmodel.ScoreResponse{}, &rewardmodel.InputError{Field: strings.Repeat("f", 1<<20), Message: strings.Repeat("m", 1<<20)}
	}))
	a := s.score(t, `{"responses":[{"response":"x"}]}`)
	require.Equal(t, 400, a.StatusCode)
	require.Less(t, len(a.body), 8<<10)
	require.Less(t, len(s.log.request(t)["error"].(string)), 4<<10)
}

// stalled is a gRPC message that announces a size and sends half of it.
func stalled(size int, stop <-chan struct{}) io.Reader {
	return io.MultiReader(bytes.NewReader(binary.BigEndian.AppendUint32([]byte{0}, uint32(size))), bytes.NewReader(make([]byte, size/2)), blocked(stop))
}

type blocked <-chan struct{}

func (b blocked) Read([]byte) (int, error) {
	<-b
	return 0, io.EOF
}

// grpcStatus sends a message that stalls, and returns the status of the call.
func grpcStatus(t *testing.T, s *rpc, host, method string) (code, message string) {
	t.Helper()
	return grpcStatusOf(t, s, host, method, func(stop <-chan struct{}) io.Reader { return stalled(4<<20, stop) })
}

// grpcStatusOf sends a body, and returns the status of the call.
func grpcStatusOf(t *testing.T, s *rpc, host, method string, body func(stop <-chan struct{}) io.Reader) (code, message string) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, s.addr)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/inference.GRPCInferenceService/"+method, body(ctx.Done()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	response, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer response.Body.Close()
	defer cancel() // ends the request body, which Close waits for
	_, _ = io.Copy(io.Discard, response.Body)
	end := response.Trailer
	if response.Header.Get("Grpc-Status") != "" {
		end = response.Header
	}
	return end.Get("Grpc-Status"), end.Get("Grpc-Message")
}

// A call without authentication accepts no large message, other calls accept none
// before authentication, and a stalled call is ended.
func TestGRPCStalledMessages(t *testing.T) {
	m := memory(t, 64<<20)
	s := startRPC(t, mustNotScore, within(m), config(func(c *api.Config) {
		c.HeaderTimeout, c.RequestTimeout, c.MinRate = 500*time.Millisecond, time.Hour, 1<<30
	}))
	for _, c := range []struct {
		host, method string
		code         codes.Code
	}{
		{"evil.example", "ServerLive", codes.ResourceExhausted},
		{"evil.example", "ModelReady", codes.ResourceExhausted},
		{"evil.example", "ModelInfer", codes.Unauthenticated},
		{"localhost", "ModelMetadata", codes.ResourceExhausted},
	} {
		code, _ := grpcStatus(t, s, c.host, c.method)
		require.Equal(t, fmt.Sprint(int(c.code)), code, c.method)
	}
	code, message := grpcStatus(t, s, "localhost", "ModelInfer")
	require.Equal(t, fmt.Sprint(int(codes.DeadlineExceeded)), code)
	require.Contains(t, message, "arrives too slowly")
	require.NotContains(t, message, "deadline", "a later deadline would not help")
	require.Eventually(t, free(m, 64<<20), timeout, 10*time.Millisecond)
}

// A call that ends before its message is complete is an error of the client.
func TestGRPCMissingMessage(t *testing.T) {
	s := startRPC(t, mustNotScore)
	for name, body := range map[string]string{"none": "", "header cut": "\x00\x00", "message cut": "\x00\x00\x00\x00\x09abc"} {
		for _, method := range []string{"ServerLive", "ModelInfer"} {
			code, _ := grpcStatusOf(t, s, "localhost", method, func(<-chan struct{}) io.Reader { return strings.NewReader(body) })
			require.Equal(t, fmt.Sprint(int(codes.InvalidArgument)), code, "%s: %s", method, name)
			s.log.request(t)
		}
	}
}

func TestGRPCMemoryIsShared(t *testing.T) {
	m := memory(t, 16<<20)
	s := startRPC(t, scorerOf(t, &model{}, 0), within(m))
	other := m.Open()
	require.NoError(t, other.Grow(12<<20))
	small := m.Open()
	require.NoError(t, small.Grow(4<<20))
	_, err := infer(t, s, texts("a"))
	requireStatus(t, err, codes.Unavailable, "request memory")
	_, err = callWith[inference.ServerLiveResponse](t, t.Context(), s.conn, "ServerLive", &inference.ServerLiveRequest{})
	require.NoError(t, err, "a probe is not rejected")
	other.Close()
	small.Close()
	_, err = infer(t, s, texts("a"))
	require.NoError(t, err)
	require.Eventually(t, free(m, 16<<20), timeout, 10*time.Millisecond)
}

var (
	maxReceive = grpc.MaxCallRecvMsgSize(64 << 20)
	streamDesc = grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
)

// A large reply stays charged until its client has read it; a client that never
// does is disconnected.
func TestGRPCUnreadReplyIsEnded(t *testing.T) {
	m := memory(t, 64<<20)
	text := strings.Repeat("x", 8<<20)
	large := scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		return rewardmodel.ScoreResponse{Results: []rewardmodel.Result{{Witness: &rewardmodel.Witness{Text: text}}}}, nil
	})
	out, err := infer(t, startRPC(t, large, within(m)), texts("a"), maxReceive)
	require.NoError(t, err)
	require.Len(t, out.Outputs[5].Contents.BytesContents[0], len(text))
	require.Eventually(t, free(m, 64<<20), timeout, 10*time.Millisecond)

	s := startRPC(t, large, within(m), config(func(c *api.Config) { c.HeaderTimeout, c.MinRate = 2*time.Second, 1<<30 }))
	stream, err := s.conn.NewStream(t.Context(), &streamDesc, streamInfer, maxReceive)
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(texts("a")))
	require.Eventually(t, func() bool { return !free(m, 64<<20)() }, timeout, time.Millisecond)
	require.Eventually(t, free(m, 64<<20), timeout, 10*time.Millisecond)
	require.Equal(t, codes.Unavailable, rpcstatus.Code(stream.RecvMsg(&inference.ModelStreamInferResponse{})))
}
