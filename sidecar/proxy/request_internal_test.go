package proxy

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadRequest(t *testing.T) {
	for body, want := range map[string][]string{
		`{"prompt":"a"}`:                  {"a"},
		`{"prompt":["a","b",1]}`:          {"a", "b", ""},
		`{"prompt":[1,2]}`:                {""},
		`{"prompt":[[1,2],[3]]}`:          {"", ""},
		`{"prompt":[]}`:                   {""},
		`{"prompt":null}`:                 {""},
		`{"prompt":{"a":["b"]}}`:          {""},
		`{"prompt":"a","prompt":["b"]}`:   {"b"},
		`{"prompt":["a` + "\xff" + `b"]}`: {"a\uFFFDb"},
		`{"prompt":["a"`:                  nil,
	} {
		require.Equal(t, want, readRequest(completionEndpoint, []byte(body)).prompts, body)
	}
	for messages, want := range map[string]string{
		`"a"`: "a",
		`[{"content":"a"},{"content":""},{},7,{"content":[{"text":"b"},{"image":"x"},{"text":""},{"text":"c"}]}]`: "a\nb c",
		`[{"content":"a","content":"b"}]`: "b",
		`{"content":"a"}`:                 "",
	} {
		require.Equal(t, []string{want}, readRequest(chatEndpoint, []byte(`{"messages":`+messages+`}`)).prompts, messages)
	}
	require.Len(t, readRequest(completionEndpoint, []byte(`{"prompt":["a"`+strings.Repeat(`,"a"`, 2*maxTexts)+`]}`)).prompts, maxTexts)
}

// A list of many short values takes no multiple of its text.
func TestReadRequestOfManyValues(t *testing.T) {
	const n = 1 << 19
	for name, c := range map[string]struct {
		kind       endpoint
		head, more string
	}{
		"token ids": {completionEndpoint, `{"prompt":[1`, `,1`},
		"prompts":   {completionEndpoint, `{"prompt":[""`, `,""`},
		"messages":  {chatEndpoint, `{"messages":[{}`, `,{}`},
		"parts":     {chatEndpoint, `{"messages":[{"content":[{}`, `,{}`},
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(c.head + strings.Repeat(c.more, n) + strings.Repeat("]}", strings.Count(c.head, "[")))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			readRequest(c.kind, body)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*len(body)))
		})
	}
}
