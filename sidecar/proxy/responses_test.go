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

// responseScript is a stream of /v1/responses with one message, whose events repeat the
// text as OpenAI's do, and with more of it in fields and events that the proxy does not
// know.
func responseScript(pieces ...string) http.HandlerFunc {
	text := strings.Join(pieces, "")
	n := 0
	event := func(kind string, fields object) string {
		fields["type"], fields["sequence_number"] = kind, n
		n++
		return "event: " + kind + "\n" + data(fields)
	}
	response := func(status string, output ...object) object {
		return object{
			"id": "r1", "object": "response", "created_at": 1700000000, "status": status, "model": "m", "output": output,
			"error": nil, "incomplete_details": nil, "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{},
		}
	}
	part := func(text string) object {
		return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
	}
	item := func(status string, content ...object) object {
		return object{"id": "i1", "type": "message", "role": "assistant", "status": status, "content": content}
	}
	at := func(more object) object {
		more["item_id"], more["output_index"], more["content_index"] = "i1", 0, 0
		return more
	}
	if n := len(pieces); n > 0 && strings.Contains(text, marker) {
		part0 := part
		part = func(text string) object {
			p := part0(text)
			if text != "" {
				p["annotations"], p["logprobs"], p["unknown"] = []object{{"title": marker}}, []object{{"token": marker}}, marker
			}
			return p
		}
	}
	events := []string{
		event("response.created", object{"response": response("in_progress")}),
		event("response.in_progress", object{"response": response("in_progress")}),
		event("response.output_item.added", object{"output_index": 0, "item": item("in_progress")}),
		event("response.content_part.added", at(object{"part": part("")})),
	}
	for _, p := range pieces {
		events = append(events, event("response.output_text.delta", at(object{"delta": p, "logprobs": []object{{"token": p}}})))
	}
	events = append(events,
		event("response.output_text.annotation.added", at(object{"annotation": object{"title": text}})),
		event("response.vendor.delta", object{"delta": text}),
		event("response.output_text.done", at(object{"text": text, "logprobs": []object{{"token": text}}})),
		event("response.content_part.done", at(object{"part": part(text)})),
		event("response.output_item.done", object{"output_index": 0, "item": item("completed", part(text))}),
	)
	final := response("completed", item("completed", part(text)), object{"type": "vendor_call", "id": "v", "result": text})
	final["output_text"], final["output_messages"] = text, []object{{"content": text}}
	final["usage"] = object{"total_tokens": 7}
	return script(append(events, event("response.completed", object{"response": final}))...)
}

// The last event may have no response into which the report could go.
func TestNoResponse(t *testing.T) {
	for _, event := range []string{`{"type":"response.completed","response":null}`, `{"type":"response.completed"}`} {
		s := start(t, script("data: "+event+"\n\n", doneEvent), nil)
		_, body := s.post(t, "/v1/responses", `{"stream":true}`)
		require.Contains(t, body, event)
		require.Contains(t, body, "[DONE]")
	}
}

func TestResponseStreams(t *testing.T) {
	for _, m := range proxy.Modes() {
		for seed := range uint64(8) {
			random := rand.New(rand.NewPCG(seed, 2))
			text := randomText(random, 1+random.IntN(5))
			t.Run(fmt.Sprint(m, seed), func(t *testing.T) {
				s := start(t, responseScript(cut(random, text)...), mode(m))
				response, body := s.post(t, "/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_text","text":"Hello?"}]}],"instructions":"Be brief.","stream":true}`)
				got, _ := events(t, body)
				violates := strings.Contains(text, marker)
				require.Equal(t, !violates, report(t, got)["compliant"])
				require.NotEmpty(t, response.Trailer.Get(proxy.VerdictHeader))
				require.Equal(t, []string{"Be brief.\nHello?"}, s.guard.prompts)
				want := text
				if m.Enforces() {
					want = enforced(m, text)
					require.NotContains(t, body, marker)
				}
				var deltas string
				kinds := map[string]object{}
				for i, e := range got {
					kind := e["type"].(string)
					kinds[kind] = e
					if kind == "response.output_text.delta" {
						deltas += e["delta"].(string)
					}
					if m.Enforces() {
						require.EqualValues(t, i, e["sequence_number"])
					}
				}
				require.Equal(t, want, deltas)
				require.Equal(t, want, kinds["response.output_text.done"]["text"])
				require.Equal(t, want, kinds["response.content_part.done"]["part"].(object)["text"])
				require.Equal(t, want, kinds["response.output_item.done"]["item"].(object)["content"].([]any)[0].(object)["text"])
				last := "response.completed"
				if violates && (m == proxy.Hold || m == proxy.Stop) {
					last = "response.incomplete"
				}
				final := kinds[last]["response"].(object)
				require.Equal(t, want, final["output"].([]any)[0].(object)["content"].([]any)[0].(object)["text"])
				if last == "response.incomplete" {
					require.Equal(t, "incomplete", final["status"])
					require.Equal(t, object{"reason": "content_filter"}, final["incomplete_details"])
				}
			})
		}
	}
}

// The events that repeat a text are scored where no delta came before.
func TestResponseTextsWithoutDeltas(t *testing.T) {
	const text = "Fine. You are a ZQXJ. Bye."
	part := object{"type": "output_text", "text": text}
	message := object{"type": "message", "id": "i", "content": []object{part, {"type": "refusal", "refusal": text}}}
	for name, sent := range map[string]string{
		"text done":  data(object{"type": "response.output_text.done", "text": text}),
		"refusal":    data(object{"type": "response.refusal.done", "refusal": text}),
		"part done":  data(object{"type": "response.content_part.done", "part": part}),
		"part added": data(object{"type": "response.content_part.added", "part": part}),
		"item added": data(object{"type": "response.output_item.added", "item": message}),
		"item done":  data(object{"type": "response.output_item.done", "item": message}),
		"created":    data(object{"type": "response.created", "response": object{"output": []object{message}}}),
		"completed":  data(object{"type": "response.completed", "response": object{"output": []object{message}}}),
		"other text": data(object{"type": "response.output_text.delta", "delta": "Fine."}) + data(object{"type": "response.output_text.done", "text": text}),
	} {
		for _, m := range []proxy.Mode{proxy.Hold, proxy.Stop, proxy.Redact} {
			t.Run(name+"/"+string(m), func(t *testing.T) {
				s := start(t, script(sent, data(object{"type": "response.completed", "response": object{"output": []object{}}})), mode(m))
				_, body := s.post(t, "/v1/responses", `{}`)
				require.NotContains(t, body, marker)
				require.NotContains(t, body, "You are")
				if name != "part added" {
					require.Contains(t, body, "Fine.")
				}
			})
		}
	}
}

func TestWholeResponse(t *testing.T) {
	const text = "Fine. You are a ZQXJ. Bye."
	body, err := json.Marshal(object{
		"id": "r", "object": "response", "status": "completed", "created_at": 1, "model": "m", "usage": object{"total_tokens": 7},
		"output_text": text,
		"output": []object{
			{"type": "reasoning", "id": "a", "summary": []object{{"type": "summary_text", "text": "Hm."}}, "encrypted_content": marker},
			{"type": "message", "id": "b", "role": "assistant", "content": []object{{"type": "output_text", "text": text, "logprobs": []object{{"token": marker}}}}},
			{"type": "function_call", "id": "c", "name": "f", "arguments": "{}", "call_id": "d"},
			{"type": "mcp_call", "id": "e", "output": marker},
		},
	})
	require.NoError(t, err)
	for _, m := range proxy.Modes() {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			s := start(t, whole(string(body)), mode(m))
			path := map[string]string{http.MethodPost: "/v1/responses", http.MethodGet: "/v1/responses/r"}[method]
			request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
			require.NoError(t, err)
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			require.Contains(t, response.Header.Get(proxy.VerdictHeader), `"compliant":false`)
			var got object
			require.NoError(t, json.NewDecoder(response.Body).Decode(&got))
			output := got["output"].([]any)
			require.Len(t, output, 4)
			said := output[1].(object)["content"].([]any)[0].(object)["text"]
			if !m.Enforces() {
				require.Equal(t, text, said)
				continue
			}
			require.Equal(t, enforced(m, text), said)
			require.NotContains(t, fmt.Sprint(got), marker)
			require.Equal(t, "Hm.", output[0].(object)["summary"].([]any)[0].(object)["text"])
			require.Equal(t, "{}", output[2].(object)["arguments"])
		}
	}
}
