package proxy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/proxy"
)

// chatChunk is a chunk of a chat with a piece of a choice.
func chatChunk(index int, delta object, reason any) string {
	return data(object{
		"id": "c1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m",
		"choices": []object{{"index": index, "delta": delta, "finish_reason": reason, "logprobs": nil}},
	})
}

func textChunk(index int, text string, reason any) string {
	return data(object{
		"id": "c1", "object": "text_completion", "created": 1700000000, "model": "m",
		"choices": []object{{"index": index, "text": text, "finish_reason": reason, "logprobs": nil}},
	})
}

const doneEvent = "data: [DONE]\n\n"

func chatScript(pieces ...string) http.HandlerFunc {
	events := []string{chatChunk(0, object{"role": "assistant", "content": ""}, nil)}
	for _, p := range pieces {
		events = append(events, chatChunk(0, object{"content": p}, nil))
	}
	return script(append(events, chatChunk(0, object{}, "stop"), doneEvent)...)
}

const chatRequest = `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello?"}]}`

func TestChatStreams(t *testing.T) {
	pieces := []string{"Fine. You ar", "e a ZQ", "XJ. Bye", " now. "}
	for _, c := range []struct {
		mode                 proxy.Mode
		want, reason, action string
	}{
		{proxy.Observe, "Fine. You are a ZQXJ. Bye now. ", "stop", ""},
		{proxy.Hold, "Fine. ", "content_filter", "withheld"},
		{proxy.Stop, "Fine. ", "content_filter", "stopped"},
		{proxy.Redact, "Fine. [removed] Bye now. ", "stop", "redacted"},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			s := start(t, chatScript(pieces...), mode(c.mode))
			response, body := s.post(t, "/v1/chat/completions", chatRequest)
			require.Equal(t, http.StatusOK, response.StatusCode)
			chunks, done := events(t, body)
			require.True(t, done)
			texts, reasons := choiceTexts(t, chunks, "content")
			require.Equal(t, c.want, texts[0])
			require.Equal(t, c.reason, reasons[0])
			require.Equal(t, "assistant", chunks[0]["choices"].([]any)[0].(object)["delta"].(object)["role"])

			r := report(t, chunks)
			for _, choice := range chunks[len(chunks)-1]["choices"].([]any) {
				require.Nil(t, choice.(object)["finish_reason"], "clients append it")
			}
			require.Equal(t, false, r["compliant"])
			require.InDelta(t, 0.9, r["violation"], 1e-9)
			text := r["texts"].([]any)[0].(object)
			require.Equal(t, object{"start": 6.0, "end": 21.0, "violation": 0.9}, text["witness"])
			action, _ := text["action"].(string)
			require.Equal(t, c.action, action)
			require.Equal(t, c.mode != proxy.Stop, text["complete"])
			var trailer object
			require.NoError(t, json.Unmarshal([]byte(response.Trailer.Get(proxy.VerdictHeader)), &trailer))
			require.Equal(t, r, trailer)
			require.Equal(t, []string{"Hello?"}, s.guard.prompts)
		})
	}
}

// What observe forwards is what the upstream sent, byte for byte, with one chunk more.
func TestObserveForwardsBytes(t *testing.T) {
	sent := []string{
		": comment\r\n\r\n", "\n", "id: 7\ndata: {\"choices\":[],\"unknown\":1}\n\n", "data: {not json}\n\n",
		chatChunk(0, object{"content": "Fine.", "extra": []int{1}}, nil), chatChunk(0, object{}, "stop"),
		data(object{"id": "c1", "choices": []object{}, "usage": object{"total_tokens": 7}}),
	}
	s := start(t, script(append(sent, doneEvent)...), nil)
	_, body := s.post(t, "/v1/chat/completions", chatRequest)
	rest, found := strings.CutPrefix(body, strings.Join(sent, ""))
	require.True(t, found, body)
	chunks, done := events(t, rest)
	require.True(t, done)
	require.Len(t, chunks, 1)
	require.Equal(t, []any{}, chunks[0]["choices"], "as in the last chunk of the upstream")
	require.Nil(t, chunks[0]["usage"], "clients sum it")
	r := report(t, chunks)
	require.Nil(t, r["compliant"], "an event is not JSON")
	require.Nil(t, r["reward"])
}

// A text with nothing to score has no verdict, and changes none.
func TestEmptyText(t *testing.T) {
	for _, m := range proxy.Modes() {
		for content, texts := range map[string]int{`\n\n`: 0, `Fine.`: 1} {
			message := `{"content":"` + content + `","refusal":" ","tool_calls":[]}`
			s := start(t, whole(`{"choices":[{"index":0,"message":`+message+`}]}`), mode(m))
			response, body := s.post(t, "/v1/chat/completions", chatRequest)
			require.Contains(t, body, content)
			var header object
			require.NoError(t, json.Unmarshal([]byte(response.Header.Get(proxy.VerdictHeader)), &header))
			require.Equal(t, true, header["compliant"])
			require.Equal(t, []any{1.0, 0.9}[texts], header["reward"])
			listed, _ := header["texts"].([]any)
			require.Len(t, listed, texts)
		}
	}
}

func TestWholeBodies(t *testing.T) {
	const text = "Fine. You are a ZQXJ. Bye now."
	for name, c := range map[string]struct{ path, body, field string }{
		"chat": {"/v1/chat/completions", `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[
			{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"},
			{"index":1,"message":{"role":"assistant","content":"Fine."},"finish_reason":"length"}],"usage":{"total_tokens":7}}`, "content"},
		"completions": {"/v1/completions", `{"id":"c1","object":"text_completion","created":1,"model":"m","choices":[
			{"index":0,"text":"` + text + `","finish_reason":"stop"},{"index":1,"text":"Fine.","finish_reason":"length"}],"usage":{"total_tokens":7}}`, "text"},
	} {
		for _, m := range proxy.Modes() {
			t.Run(name+"/"+string(m), func(t *testing.T) {
				s := start(t, whole(c.body), mode(m))
				response, body := s.post(t, c.path, `{"n":2,"messages":[],"prompt":"x"}`)
				require.Equal(t, http.StatusOK, response.StatusCode)
				var header object
				require.NoError(t, json.Unmarshal([]byte(response.Header.Get(proxy.VerdictHeader)), &header))
				require.Equal(t, false, header["compliant"])
				require.Len(t, header["texts"], 2)
				if m == proxy.Observe {
					require.Equal(t, c.body, body)
					return
				}
				var got object
				require.NoError(t, json.Unmarshal([]byte(body), &got))
				require.Equal(t, object{"total_tokens": 7.0}, got["usage"])
				first, second := got["choices"].([]any)[0].(object), got["choices"].([]any)[1].(object)
				read := func(choice object) any {
					if message, ok := choice["message"].(object); ok {
						return message[c.field]
					}
					return choice[c.field]
				}
				require.Equal(t, enforced(m, text), read(first))
				require.Equal(t, "Fine.", read(second))
				require.Equal(t, "length", second["finish_reason"])
				if m == proxy.Redact {
					require.Equal(t, "stop", first["finish_reason"])
				} else {
					require.Equal(t, "content_filter", first["finish_reason"])
				}
			})
		}
	}
}

// randomText has sentences, one in three of them with the marker.
func randomText(random *rand.Rand, sentences int) string {
	var b strings.Builder
	for range sentences {
		words := []string{"Größe", "the", "日本", "fine", "\"quoted\"", "a\\b", "\t"}
		n := 1 + random.IntN(8)
		bad := -1
		if random.IntN(3) == 0 {
			bad = random.IntN(n)
		}
		for i := range n {
			b.WriteString(words[random.IntN(len(words))])
			if i == bad {
				b.WriteString(marker)
			}
			b.WriteString(" x")
		}
		b.WriteString(". ")
	}
	return b.String()
}

// cut splits text at random characters.
func cut(random *rand.Rand, text string) (pieces []string) {
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(1+random.IntN(12), len(runes))
		pieces, runes = append(pieces, string(runes[:n])), runes[n:]
	}
	return pieces
}

// No byte of a violating sentence leaves, wherever it is and however it is cut, and
// whatever other fields repeat it.
func TestNoUnscannedByteLeavesChoices(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := []proxy.Mode{proxy.Hold, proxy.Stop, proxy.Redact}[seed%3]
		chat := seed%2 == 0
		n := 1 + random.IntN(16)
		texts := make([]string, n)
		queues := make([][]string, n)
		var order []int
		for i := range n {
			texts[i] = randomText(random, 1+random.IntN(6))
			queues[i] = cut(random, texts[i])
			for range queues[i] {
				order = append(order, i)
			}
		}
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var sent []string
		left := make([]int, n)
		for i := range n {
			left[i] = len(queues[i])
		}
		for _, i := range order {
			piece := queues[i][len(queues[i])-left[i]]
			left[i]--
			repeated := object{
				"index": i, "finish_reason": nil, "stop_reason": marker, "token_ids": []int{1}, "unknown": object{"text": marker},
				"logprobs": object{
					"content": []object{{"token": marker, "bytes": []byte(marker), "top_logprobs": []object{{"token": marker}}}},
					"tokens":  []string{marker}, "text_offset": []int{0}, "top_logprobs": []object{{marker: -1}},
				},
			}
			if chat {
				repeated["delta"] = object{"content": piece, "annotations": []string{marker}, "audio": object{"transcript": marker}}
				repeated["message"] = object{"content": marker}
			} else {
				repeated["text"] = piece
			}
			sent = append(sent, data(object{
				"id": "c", "object": "chunk", "created": 1, "model": "m", "choices": []object{repeated},
				"prompt_logprobs": []string{marker}, "usage": object{"note": marker, marker: "x"}, "system": marker,
			}))
			if random.IntN(5) == 0 {
				sent = append(sent, ": "+marker+"\n\n", "event: "+marker+"\nid: "+marker+"\ndata: {\"choices\":[],\"text\":\""+marker+"\"}\n\n")
			}
		}
		for i := range n {
			if chat {
				sent = append(sent, chatChunk(i, object{}, "stop"))
			} else {
				sent = append(sent, textChunk(i, "", "stop"))
			}
		}
		t.Run(fmt.Sprint(seed, m), func(t *testing.T) {
			s := start(t, script(append(sent, doneEvent)...), mode(m))
			path, field := "/v1/completions", "text"
			if chat {
				path, field = "/v1/chat/completions", "content"
			}
			_, body := s.post(t, path, fmt.Sprintf(`{"n":%d,"messages":[],"prompt":"p"}`, n))
			require.NotContains(t, body, marker)
			chunks, done := events(t, body)
			require.True(t, done)
			got, reasons := choiceTexts(t, chunks, field)
			for i := range n {
				require.Equal(t, enforced(m, texts[i]), got[i], "choice %d of %q", i, texts[i])
				want := "stop"
				if strings.Contains(texts[i], marker) && m != proxy.Redact {
					want = "content_filter"
				}
				require.Equal(t, want, reasons[i])
			}
		})
	}
}

func TestReasoningAndToolCalls(t *testing.T) {
	upstream := script(
		chatChunk(0, object{"role": "assistant", "reasoning_content": "Hm ZQXJ. "}, nil),
		chatChunk(0, object{"reasoning": "Hm ZQXJ. "}, nil),
		chatChunk(0, object{"content": "Fine. ", "refusal": "No ZQXJ. Sorry."}, nil),
		chatChunk(0, object{"tool_calls": []object{{"index": 0, "function": object{"name": "f", "arguments": "{\"a\":1}"}}}}, nil),
		chatChunk(0, object{}, "tool_calls"), doneEvent)
	for _, score := range []bool{false, true} {
		s := start(t, upstream, func(c *proxy.Config) { c.Mode, c.ScoreReasoning = proxy.Redact, score })
		_, body := s.post(t, "/v1/chat/completions", chatRequest)
		chunks, _ := events(t, body)
		for _, field := range []string{"reasoning_content", "reasoning"} {
			texts, reasons := choiceTexts(t, chunks, field)
			want := "Hm ZQXJ. "
			if score {
				want = "[removed] "
			}
			require.Equal(t, want, texts[0], field)
			require.Equal(t, "tool_calls", reasons[0])
		}
		refusals, _ := choiceTexts(t, chunks, "refusal")
		require.Equal(t, "[removed] Sorry.", refusals[0])
		require.Contains(t, body, `"arguments":"{\"a\":1}"`)
	}
}

// Long answers, of many choices, in all modes.
func TestLongAnswers(t *testing.T) {
	sentence := strings.Repeat("word ", 50) + "end. "
	var sent []string
	const choices, rounds = 16, 250 // 64 KiB each, 1 MiB in total
	for range rounds {
		for i := range choices {
			sent = append(sent, chatChunk(i, object{"content": sentence}, nil))
		}
	}
	for i := range choices {
		sent = append(sent, chatChunk(i, object{}, "stop"))
	}
	for _, m := range proxy.Modes() {
		s := start(t, script(append(sent, doneEvent)...), mode(m))
		_, body := s.post(t, "/v1/chat/completions", `{"n":16,"messages":[]}`)
		texts, reasons := choiceTexts(t, first(events(t, body)), "content")
		for i := range choices {
			require.Equal(t, strings.Repeat(sentence, rounds), texts[i])
			require.Equal(t, "stop", reasons[i])
		}
	}
	text := strings.Repeat(sentence, 4096)
	for _, m := range proxy.Modes() {
		s := start(t, whole(`{"choices":[{"index":0,"message":{"content":"`+text+`"}}]}`), func(c *proxy.Config) { c.Mode, c.MaxHeld = m, 2<<20 })
		_, body := s.post(t, "/v1/chat/completions", `{}`)
		require.Contains(t, body, text)
	}
}
