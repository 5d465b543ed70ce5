package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const guardrail = "/beta/litellm_basic_guardrail_api"

type guardrailVerdict struct {
	Action   string
	Reason   string `json:"blocked_reason"`
	Holdback []int  `json:"stream_holdback_chars"`
}

func (s *service) guard(t *testing.T, kind string, texts ...string) guardrailVerdict {
	t.Helper()
	body, err := json.Marshal(map[string]any{"input_type": kind, "texts": texts})
	require.NoError(t, err)
	a := s.do(t, "POST", guardrail, strings.NewReader(string(body)))
	require.Equal(t, 200, a.StatusCode, "%s", a.body)
	var v guardrailVerdict
	require.NoError(t, json.Unmarshal(a.body, &v))
	return v
}

func TestLiteLLMGuardrail(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for name, c := range map[string]struct {
		kind  string
		texts []string
		want  string
	}{
		"compliant":     {"response", []string{"Fine. Good."}, "NONE"},
		"violating":     {"response", []string{"Fine. Not # fine."}, "BLOCKED"},
		"second choice": {"response", []string{"Fine.", "Not # fine."}, "BLOCKED"},
		"empty":         {"response", []string{"", "  "}, "NONE"},
		"reasoning":     {"response", []string{"<think>Not # fine.</think>Fine."}, "NONE"},
		"open":          {"response", []string{"Fine. Not #"}, "BLOCKED"},
		"too long":      {"response", []string{strings.Repeat("Fine. ", 5000) + "Not # fine."}, "BLOCKED"},
		"request":       {"request", []string{"Be kind.", "Not # fine."}, "BLOCKED"},
		"fine request":  {"request", []string{"Be kind."}, "NONE"},
	} {
		t.Run(name, func(t *testing.T) {
			v := s.guard(t, c.kind, c.texts...)
			require.Equal(t, c.want, v.Action)
			require.Equal(t, c.want == "BLOCKED", v.Reason != "")
			require.NotContains(t, v.Reason, "fine", "the reason does not quote")
			if c.kind == "request" || c.want == "BLOCKED" {
				require.Empty(t, v.Holdback)
			} else {
				require.Len(t, v.Holdback, len(c.texts))
			}
		})
	}
}

// A stream that holds back what the verdict says shows whole utterances.
func TestLiteLLMHoldsBackTheOpenUtterance(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	text := []rune("Fine 🙂. Good. Yes, e.g. this… One more! And one. The end.")
	shown := map[string]bool{}
	for end := range text {
		v := s.guard(t, "response", string(text[:end+1]))
		require.Len(t, v.Holdback, 1)
		shown[string(text[:end+1-v.Holdback[0]])] = true
	}
	for text := range shown {
		require.Regexp(t, `^$|[.!…]\s*$`, text)
	}
	require.Greater(t, len(shown), 3)
}
