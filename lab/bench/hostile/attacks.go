package hostile

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/lab/load"
)

// large is just below the default of --max-body.
const large = 31 << 20

// attacks are the attacks of the hostile clients; each client repeats one.
var attacks = []struct {
	name string
	once func(ctx context.Context, p *victim, turn int) string
}{
	{"empty texts in JSON", emptyTexts},
	{"empty texts in a binary tensor", emptyTensor},
	{"many instances", manyInstances},
	{"results that nobody reads", unreadResults},
	{"a body that stalls", stalledBody},
	{"a body that drips", drippingBody},
	{"a gzip bomb", gzipBomb},
	{"a model name of 16 MiB", longName},
	{"a word of 4 MiB", longWord},
	{"gRPC messages that stall", stalledMessages},
	{"gRPC, empty texts", emptyMessage},
	{"an object of millions of names", manyNames},
}

// tally counts the outcomes of the attacks.
type tally struct {
	mu   sync.Mutex
	seen map[string]map[string]int
}

func newTally() *tally { return &tally{seen: map[string]map[string]int{}} }

func (t *tally) add(name, outcome string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[name] == nil {
		t.seen[name] = map[string]int{}
	}
	t.seen[name][outcome]++
}

func (t *tally) print(w io.Writer) {
	fmt.Fprintln(w, "| attack | outcomes |\n|---|---|")
	for _, name := range slices.Sorted(maps.Keys(t.seen)) {
		var parts []string
		for _, outcome := range slices.Sorted(maps.Keys(t.seen[name])) {
			parts = append(parts, fmt.Sprintf("%s: %d", outcome, t.seen[name][outcome]))
		}
		fmt.Fprintf(w, "| %s | %s |\n", name, strings.Join(parts, ", "))
	}
}

func attack(ctx context.Context, p *victim, client int, t *tally) {
	a := attacks[client%len(attacks)]
	for turn := 0; ctx.Err() == nil; turn++ {
		outcome := a.once(ctx, p, turn)
		if ctx.Err() == nil {
			t.add(a.name, outcome)
		}
		_ = load.WaitUntil(ctx, time.Now().Add(100*time.Millisecond)) // the loop checks ctx
	}
}

// repeated returns head, n times unit, and tail, compressed.
func repeated(head, unit string, n int, tail string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = io.WriteString(z, head) // a buffer takes all
	block := []byte(strings.Repeat(unit, 4096))
	for ; n >= 4096; n -= 4096 {
		_, _ = z.Write(block)
	}
	_, _ = z.Write(block[:n*len(unit)])
	_, _ = io.WriteString(z, tail)
	_ = z.Close()
	return out.Bytes()
}

func send(ctx context.Context, p *victim, path string, body []byte, headers ...string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+path, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "no response"
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // hostile clients ignore errors
	return strconv.Itoa(response.StatusCode)
}

func emptyTexts(ctx context.Context, p *victim, turn int) string {
	routes := []struct{ path, head, tail string }{
		{"/v1/embeddings", `{"input":[`, `""]}`}, {"/predict", `{"inputs":[`, `""]}`},
		{"/v1/moderations", `{"input":[`, `""]}`}, {"/get_reward", `{"query":[`, `""]}`},
		{"/api/v1/text/contents", `{"contents":[`, `""]}`}, {"/classify", `{"input":[`, `""]}`},
		{"/v1/score", `{"responses":[{"instances":[`, `""]}]}`}, {"/v1/feedback", `{"items":[{"id":"a","label":"violation","instances":[`, `""]}]}`},
		{"/v2/models/assay/infer", `{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":[`, `""]}]}`},
	}
	r := routes[turn%len(routes)]
	return send(ctx, p, r.path, p.body(r.path, func() []byte { return repeated(r.head, `"",`, large/3, r.tail) }))
}

func emptyTensor(ctx context.Context, p *victim, _ int) string {
	n := large / 4
	head := fmt.Sprintf(`{"inputs":[{"name":"text","shape":[%d],"datatype":"BYTES","parameters":{"binary_data_size":%d}}]}`, n, 4*n)
	return send(ctx, p, "/v2/models/assay/infer", p.body("tensor", func() []byte { return repeated(head, "\x00\x00\x00\x00", n, "") }),
		"Content-Type", "application/octet-stream", "Inference-Header-Content-Length", strconv.Itoa(len(head)))
}

// instances is a request with that many responses of 4,096 utterances.
func instances(responses int) []byte {
	one := `{"response":"` + strings.Repeat("X! ", 4096) + `"}`
	return []byte(`{"responses":[` + strings.Repeat(one+",", responses-1) + one + `]}`)
}

func zipped(body []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(body) // a buffer takes all
	_ = z.Close()
	return out.Bytes()
}

func manyInstances(ctx context.Context, p *victim, turn int) string {
	n := []int{2600, 128, 64}[turn%3]
	return send(ctx, p, "/v1/score", p.body("instances "+strconv.Itoa(n), func() []byte { return zipped(instances(n)) }))
}

func unreadResults(ctx context.Context, p *victim, _ int) string {
	body := p.body("unread", func() []byte { return zipped(instances(120)) })
	return raw(ctx, p, "Content-Encoding: gzip\r\n", len(body), 2*time.Minute, func(c net.Conn) {
		_, _ = c.Write(body)
	})
}

func stalledBody(ctx context.Context, p *victim, _ int) string {
	return raw(ctx, p, "", large, time.Minute, func(c net.Conn) {
		_, _ = c.Write([]byte(`{"responses":[{"response":"`))
		_, _ = c.Write(bytes.Repeat([]byte("a"), 16<<20))
	})
}

func drippingBody(ctx context.Context, p *victim, _ int) string {
	return raw(ctx, p, "", large, 0, func(c net.Conn) {
		_, _ = c.Write([]byte(`{"responses":[{"response":"`))
		_, _ = c.Write(bytes.Repeat([]byte("a"), 8<<20))
		for ctx.Err() == nil {
			if _, err := c.Write([]byte("a")); err != nil {
				return
			}
			_ = load.WaitUntil(ctx, time.Now().Add(100*time.Millisecond)) // the loop checks ctx
		}
	})
}

// raw sends a request over a plain connection and then waits until the service closes it, without reading the response.
func raw(ctx context.Context, p *victim, headers string, length int, hold time.Duration, body func(net.Conn)) string {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(p.URL, "http://"))
	if err != nil {
		return "no connection"
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(c, "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n", headers, length)
	body(c)
	start := time.Now()
	for time.Since(start) < hold && ctx.Err() == nil {
		_ = load.WaitUntil(ctx, time.Now().Add(time.Second)) // the loop checks ctx
		if _, err := c.Write([]byte(" ")); err != nil {
			return "closed by the service"
		}
	}
	return "closed"
}

func gzipBomb(ctx context.Context, p *victim, _ int) string {
	return send(ctx, p, "/v1/score", p.body("bomb", func() []byte { return repeated(`{"responses":[{"response":"`, "a", 1<<30, `"}]}`) }))
}

func longName(ctx context.Context, p *victim, _ int) string {
	return send(ctx, p, "/v1/score", p.body("name", func() []byte { return repeated(`{"model":"`, "v", 16<<20, `","responses":[{"response":"x"}]}`) }))
}

func longWord(ctx context.Context, p *victim, _ int) string {
	return send(ctx, p, "/v1/score", p.body("word", func() []byte {
		return repeated(`{"responses":[{"response":"`, "a", 4<<20, `"}],"options":{"instances":false}}`)
	}), "X-Request-Timeout", "20")
}

func manyNames(ctx context.Context, p *victim, turn int) string {
	path, head, tail := "/v1/score", `{"responses":[{"response":"x","metadata":{`, `"z":0}}]}`
	if turn%2 == 1 {
		path, head, tail = "/v1/embeddings", `{"input":"x","more":{`, `"z":0}}`
	}
	return send(ctx, p, path, p.body("names "+path, func() []byte {
		body := bytes.NewBufferString(head)
		for i := 0; body.Len() < large-64; i++ {
			fmt.Fprintf(body, `"%x":0,`, i)
		}
		body.WriteString(tail)
		return zipped(body.Bytes())
	}))
}

// stalling is a body that stops before its end.
type stalling struct {
	head []byte
	left int
	stop <-chan struct{}
}

func (s *stalling) Read(b []byte) (int, error) {
	if len(s.head) > 0 {
		n := copy(b, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	if s.left > 0 {
		n := min(len(b), s.left)
		s.left -= n
		return n, nil
	}
	<-s.stop
	return 0, io.EOF
}

func overGRPC() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols}
}

func framed(size int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(size)) } //nolint:gosec // sizes of this file

func grpcRequest(ctx context.Context, p *victim, method string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.rpc+"/inference.GRPCInferenceService/"+method, body)
	if err == nil {
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("TE", "trailers")
	}
	return r, err
}

// stalledMessages has 60 calls on one connection, half of them to a method that needs no token.
func stalledMessages(ctx context.Context, p *victim, _ int) string {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	transport := overGRPC()
	defer transport.CloseIdleConnections()
	var calls sync.WaitGroup
	for i := range 60 {
		calls.Go(func() {
			r, err := grpcRequest(ctx, p, []string{"ServerLive", "ModelInfer"}[i%2], &stalling{framed(large), large - 1, ctx.Done()})
			if err != nil {
				return
			}
			if response, err := transport.RoundTrip(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	calls.Wait()
	return "60 calls ended"
}

// emptyMessage is a ModelInferRequest of millions of empty raw tensors, field 7.
func emptyMessage(ctx context.Context, p *victim, _ int) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	transport := overGRPC()
	defer transport.CloseIdleConnections()
	size := large &^ 1
	r, err := grpcRequest(ctx, p, "ModelInfer", io.MultiReader(bytes.NewReader(framed(size)), bytes.NewReader(bytes.Repeat([]byte{7<<3 | 2, 0}, size/2))))
	if err != nil {
		return err.Error()
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return "no response"
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	code := response.Trailer.Get("Grpc-Status")
	if code == "" {
		code = response.Header.Get("Grpc-Status")
	}
	if code == "" { // the time was over
		return "no response"
	}
	return grpcOutcome + code
}
