package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// templated are the endpoints that detect turns in a text, with a request body.
var templated = map[string]struct{ path, body string }{
	"vLLM":      {"/classify", `{"input":["TEXT"]}`},
	"SGLang":    {"/classify", `{"text":"TEXT"}`},
	"SGLang v1": {"/v1/embeddings", `{"input":"TEXT"}`},
	"TEI":       {"/predict", `{"inputs":"TEXT"}`},
	"TEI batch": {"/predict", `{"inputs":[["TEXT"]]}`},
	"OIP":       {"/v2/models/assay/infer", `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["TEXT"]}]}`},
	"OpenRLHF":  {"/get_reward", `{"query":["TEXT"]}`},
	"slime":     {"/slime", `{"prompt":"a","response":"TEXT"}`},
}

const oneTurn = `<|im_start|>assistant\na`

// Hundreds of thousands of turns are rejected before they are built.
func TestTurnsAreCounted(t *testing.T) {
	s := start(t, mustNotScore)
	text := strings.Repeat(oneTurn, 512<<10)
	for name, c := range templated {
		t.Run(name, func(t *testing.T) {
			body := strings.Replace(c.body, "TEXT", text, 1)
			var a answer
			require.Less(t, allocated(func() { a = s.do(t, "POST", c.path, strings.NewReader(body)) }), uint64(10*len(body)+32<<20))
			require.Contains(t, []int{413, 422}, a.StatusCode, "%.500s", a.body)
			require.Contains(t, string(a.body), "headers of chat templates")
		})
	}
}

// The limit applies to the request, not to each text.
func TestTurnsOfARequestAreCounted(t *testing.T) {
	s := start(t, mustNotScore)
	texts := strings.Repeat(`"`+strings.Repeat(oneTurn, 64<<10)+`",`, 8)
	a := s.do(t, "POST", "/classify", strings.NewReader(`{"input":[`+strings.TrimSuffix(texts, ",")+`]}`))
	require.Equal(t, 413, a.StatusCode, "%.500s", a.body)
}

// Turns are charged before they are built.
func TestTurnsAreCharged(t *testing.T) {
	s := start(t, mustNotScore, within(memory(t, 24<<20)))
	text := strings.Repeat(oneTurn, 64<<10)
	for name, c := range templated {
		a := s.do(t, "POST", c.path, strings.NewReader(strings.Replace(c.body, "TEXT", text, 1)))
		require.Contains(t, []int{413, 422}, a.StatusCode, "%s: %.500s", name, a.body)
		require.Contains(t, string(a.body), "request memory", name)
	}
}

// So is the memory for finding a prompt.
func TestPromptSearchIsCharged(t *testing.T) {
	s := start(t, mustNotScore, within(memory(t, 64<<20)))
	long := strings.Repeat("a", 4<<20)
	a := s.do(t, "POST", "/get_reward", strings.NewReader(`{"query":["`+long+`"],"prompts":["b`+long+`"]}`))
	require.Equal(t, 413, a.StatusCode, "%.500s", a.body)
	require.Contains(t, string(a.body), "request memory")
}
