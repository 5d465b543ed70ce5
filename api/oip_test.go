package api_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
)

const headerLength = "Inference-Header-Content-Length"

// tensor is a raw BYTES tensor.
func tensor(texts ...string) []byte {
	var raw []byte
	for _, text := range texts {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(len(text)))
		raw = append(raw, text...)
	}
	return raw
}

// Clients of Triton send texts and request outputs as raw bytes after the JSON, whose
// length is in a header.
func TestOIPBinary(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	raw := tensor("Fine 🙂. Not # fine.", "")
	head := `{"id":"7","inputs":[{"name":"text","shape":[2,1],"datatype":"BYTES","parameters":{"binary_data_size":` + strconv.Itoa(len(raw)) + `}}],` +
		`"outputs":[{"name":"reward","parameters":{"binary_data":true}},{"name":"violation"},{"name":"witness_text","parameters":{"binary_data":true}},` +
		`{"name":"compliant","parameters":{"binary_data":true}},{"name":"witness_start","parameters":{"binary_data":true}}]}`
	a := s.do(t, "POST", "/v2/models/assay/infer", bytes.NewReader(append([]byte(head), raw...)),
		"Content-Type", "application/octet-stream", headerLength, strconv.Itoa(len(head)), "Accept-Encoding", "gzip")
	require.Equal(t, 200, a.StatusCode, "%s", a.body)
	require.Equal(t, "application/octet-stream", a.Header.Get("Content-Type"))
	n, err := strconv.Atoi(a.Header.Get(headerLength))
	require.NoError(t, err)
	var got struct {
		ID      string
		Outputs []struct {
			Name       string
			Shape      []int
			Data       []float64
			Parameters map[string]int
		}
	}
	require.NoError(t, json.Unmarshal(a.body[:n], &got))
	rest := a.body[n:]
	take := func(size int) []byte {
		part := rest[:size]
		rest = rest[size:]
		return part
	}
	require.Equal(t, "7", got.ID)
	sizes := []int{8, 0, 4 + 11 + 4, 2, 8}
	for i, o := range got.Outputs {
		require.Equal(t, []int{2, 1}, o.Shape)
		require.Equal(t, sizes[i], o.Parameters["binary_data_size"], o.Name)
	}
	rewards := take(8)
	require.InDelta(t, 0.0474, math.Float32frombits(binary.LittleEndian.Uint32(rewards)), 1e-3)
	require.Zero(t, math.Float32frombits(binary.LittleEndian.Uint32(rewards[4:])))
	require.InDelta(t, 0.9526, got.Outputs[1].Data[0], 1e-3)
	require.Equal(t, tensor("Not # fine.", ""), take(19))
	require.Equal(t, []byte{0, 0}, take(2))
	require.Equal(t, []byte{8, 0, 0, 0, 255, 255, 255, 255}, take(8))
	require.Empty(t, rest)

	head = `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}],"parameters":{"binary_data_output":true}}`
	a = s.do(t, "POST", "/v2/models/assay/infer", strings.NewReader(head))
	require.Equal(t, "application/octet-stream", a.Header.Get("Content-Type"))
}

func TestOIPBadTensors(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	text := func(shape, rest string) string {
		return `{"inputs":[{"name":"text","shape":` + shape + `,"datatype":"BYTES"` + rest + `}]}`
	}
	sized := func(n int) string { return text("[1]", `,"parameters":{"binary_data_size":`+strconv.Itoa(n)+`}`) }
	for name, c := range map[string]struct {
		head, raw, length, says string
	}{
		"no data":              {head: text("[1]", ""), says: "inputs[0].data: is missing"},
		"no inputs":            {head: `{"inputs":[]}`, says: "text"},
		"no shape":             {head: text("[]", `,"data":["a"]`), says: "shape"},
		"negative":             {head: text("[-1]", `,"data":["a"]`), says: "dimension -1"},
		"huge":                 {head: text("[4294967296,4294967296]", `,"data":["a"]`), says: "2^31"},
		"none":                 {head: text("[0]", `,"data":[]`), says: "is empty"},
		"number":               {head: text("[1]", `,"data":[1]`), says: "not a string"},
		"deep":                 {head: text("[1]", `,"data":`+strings.Repeat("[", 20)+strings.Repeat("]", 20)), says: "nested lists"},
		"unknown output":       {head: `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"x"}]}`, says: "unknown output"},
		"prompts":              {head: `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]},{"name":"prompt","shape":[2],"datatype":"BYTES","data":["a","b"]}]}`, says: "2 prompts for 1 texts"},
		"length":               {head: sized(5), raw: "\x01\x00\x00\x00a", length: "1000", says: headerLength},
		"length, not a number": {head: sized(5), raw: "\x01\x00\x00\x00a", length: "x", says: headerLength},
		"size":                 {head: sized(6), raw: "\x01\x00\x00\x00a", says: "5 bytes are left"},
		"rest":                 {head: sized(5), raw: "\x01\x00\x00\x00ab", says: "1 bytes follow"},
		"cut length":           {head: sized(3), raw: "\x01\x00\x00", says: "ends within the length"},
		"cut element":          {head: sized(5), raw: "\x02\x00\x00\x00a", says: "has 2 bytes, and 1 are left"},
		"invalid UTF-8":        {head: sized(5), raw: "\x01\x00\x00\x00\xff", says: "UTF-8"},
		"two elements":         {head: sized(10), raw: "\x01\x00\x00\x00a\x01\x00\x00\x00b", says: "has 1 elements, and data has more"},
	} {
		t.Run(name, func(t *testing.T) {
			length := c.length
			if length == "" {
				length = strconv.Itoa(len(c.head))
			}
			a := s.do(t, "POST", "/v2/models/assay/infer", strings.NewReader(c.head+c.raw), headerLength, length)
			require.Equal(t, 400, a.StatusCode)
			requireShape(t, "oip", a.body)
			require.Contains(t, string(a.body), c.says)
		})
	}
}

// FuzzCompat posts arbitrary bodies to every adapter: the response is never a 500,
// and is JSON unless raw tensors were requested.
func FuzzCompat(f *testing.F) {
	paths := []string{"/get_reward", "/slime", "/slime/result", "/classify", "/score", "/v1/embeddings", "/v1/moderations",
		"/predict", "/api/v1/text/contents", "/v2/models/assay/infer"}
	for i, body := range []string{
		`{"query":["<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nFine."],"prompts":["Hi"]}`,
		`{"prompt":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"response":"Fine."}`,
		`{"prompt":null,"response":"One.<|im_end|><|im_start|>tool\n1<|im_end|><|im_start|>assistant\nTwo."}`,
		`{"model":"v7","input":["a","[INST] a [/INST] b"]}`,
		`{"queries":"a","items":["b","c"]}`,
		`{"input":"a","encoding_format":"base64"}`,
		`{"input":[{"type":"text","text":"a"}]}`,
		`{"inputs":[["a"],["b","c"]],"raw_scores":true}`,
		`{"contents":["🙂 #","é"]}`,
		`{"inputs":[{"name":"text","shape":[1,1],"datatype":"BYTES","data":[["a"]]}],"parameters":{"binary_data_output":true}}`,
	} {
		f.Add(uint8(i), []byte(body), "")
	}
	head := `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}}]}`
	f.Add(uint8(9), append([]byte(head), tensor("a")...), strconv.Itoa(len(head)))

	cfg := api.DefaultConfig()
	cfg.MaxBody = 1 << 16
	cfg.Insecure = true // a recorded request has no peer
	server, err := api.New(cfg, api.Parts{Scorer: scorerOf(f, &model{}, 0), Models: served}, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte, length string) {
		r := httptest.NewRequest(http.MethodPost, paths[int(which)%len(paths)], bytes.NewReader(body))
		r.Header.Set(headerLength, length)
		w := httptest.NewRecorder()
		server.Handler().ServeHTTP(w, r)
		raw := w.Header().Get("Content-Type") == "application/octet-stream"
		if !slices.Contains([]int{200, 400, 413, 422}, w.Code) || !raw && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	})
}
