package proxy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/sidecar/proxy"
)

// pairModel finds a text violating that has the marker twice: two sentences as a whole.
type pairModel struct{ markerModel }

func (pairModel) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	margins := make([]float32, len(batch))
	for i, s := range batch {
		found := float32(0)
		for _, id := range s.IDs {
			if id == 1 {
				found++
			}
		}
		margins[i] = -5 + found
		if found > 1 {
			margins[i] = 5
		}
	}
	return margins, nil
}

// Of a short text that violates as a whole, no more is released: what precedes its witness
// if that comes last, and otherwise nothing that still waits.
func TestTextThatViolatesAsAWhole(t *testing.T) {
	type want struct{ text, reason, action string }
	both := func(w want) map[proxy.Mode]want {
		stopped := w
		stopped.action = "stopped"
		return map[proxy.Mode]want{proxy.Hold: w, proxy.Stop: stopped}
	}
	with := func(wants map[proxy.Mode]want, redacted want) map[proxy.Mode]want {
		wants[proxy.Redact] = redacted
		wants[proxy.Observe] = want{"", "stop", ""}
		return wants
	}
	for name, c := range map[string]struct {
		content       string
		stream, whole map[proxy.Mode]want
		witness       float64
	}{
		"the witness is released": {
			"A ZQXJ. Then ZQXJ it was. And so.",
			with(both(want{"A ZQXJ. Then ZQXJ it was. ", "content_filter", "withheld"}), want{"A ZQXJ. Then ZQXJ it was. [removed]", "stop", "redacted"}),
			with(both(want{"", "content_filter", "withheld"}), want{"[removed]", "stop", "redacted"}),
			0,
		},
		"the witness is the last sentence": {
			"A cat. Then a ZQXJ-x and. A-ZQXJ ZQXJ",
			with(both(want{"A cat. Then a ZQXJ-x and. ", "content_filter", "withheld"}), want{"A cat. Then a ZQXJ-x and. [removed]", "stop", "redacted"}),
			with(both(want{"A cat. Then a ZQXJ-x and. ", "content_filter", "withheld"}), want{"A cat. Then a ZQXJ-x and. [removed]", "stop", "redacted"}),
			26,
		},
	} {
		scoring := rewardmodel.ScorerConfig{Version: "v1", WholeCharacters: 100}
		for m, want := range c.stream {
			t.Run(name+"/stream/"+string(m), func(t *testing.T) {
				s := startModel(t, chatScript(strings.SplitAfter(c.content, " ")...), m, pairModel{}, scoring)
				_, body := s.post(t, "/v1/chat/completions", chatRequest)
				chunks, _ := events(t, body)
				texts, reasons := choiceTexts(t, chunks, "content")
				if m != proxy.Observe {
					require.Equal(t, want.text, texts[0])
				}
				require.Equal(t, want.reason, reasons[0])
				checkWhole(t, report(t, chunks), want.action, c.witness)
			})
		}
		for m, want := range c.whole {
			t.Run(name+"/whole/"+string(m), func(t *testing.T) {
				answer, err := json.Marshal(object{"choices": []object{{"index": 0, "message": object{"content": c.content}, "finish_reason": "stop"}}})
				require.NoError(t, err)
				s := startModel(t, whole(string(answer)), m, pairModel{}, scoring)
				response, body := s.post(t, "/v1/chat/completions", chatRequest)
				var got struct {
					Choices []struct {
						Message      struct{ Content string }
						FinishReason string `json:"finish_reason"`
					}
				}
				require.NoError(t, json.Unmarshal([]byte(body), &got))
				if m != proxy.Observe {
					require.Equal(t, want.text, got.Choices[0].Message.Content)
				}
				require.Equal(t, want.reason, got.Choices[0].FinishReason)
				var header object
				require.NoError(t, json.Unmarshal([]byte(response.Header.Get(proxy.VerdictHeader)), &header))
				checkWhole(t, header, want.action, c.witness)
			})
		}
	}
}

// If every sentence of a text is released before its result, the finish reason still says
// that it violates as a whole.
func TestReleasedTextThatViolatesAsAWhole(t *testing.T) {
	const content = "Fine. It is so. "
	created := data(object{"type": "response.created", "response": object{"id": "r1", "status": "in_progress", "output": []any{}}})
	delta := data(object{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": content})
	completed := data(object{"type": "response.completed", "response": object{"id": "r1", "status": "completed", "output": []any{}}})
	for _, m := range []proxy.Mode{proxy.Hold, proxy.Stop, proxy.Redact} {
		s := start(t, chatScript(content), mode(m))
		s.guard.asWhole = true
		_, body := s.post(t, "/v1/chat/completions", chatRequest)
		chunks, _ := events(t, body)
		texts, reasons := choiceTexts(t, chunks, "content")
		require.Equal(t, content, texts[0]+" ")
		require.Equal(t, "content_filter", reasons[0])
		checkWhole(t, report(t, chunks), map[bool]string{true: "stopped", false: "withheld"}[m == proxy.Stop], 0)

		s = start(t, script(created, delta, completed), mode(m))
		s.guard.asWhole = true
		_, body = s.post(t, "/v1/responses", `{"stream":true}`)
		require.Contains(t, body, `"type":"response.incomplete"`)
		require.Contains(t, body, `"reason":"content_filter"`)
	}
}

// checkWhole checks a report on a text that violates as a whole.
func checkWhole(t *testing.T, report object, action string, witness float64) {
	t.Helper()
	require.Equal(t, false, report["compliant"])
	text := report["texts"].([]any)[0].(object)
	require.Equal(t, false, text["compliant"])
	got, _ := text["action"].(string)
	require.Equal(t, action, got)
	require.InDelta(t, witness, text["witness"].(object)["start"], 0)
	require.Equal(t, text["violation"], text["witness"].(object)["violation"], "both are those of the result")
}
