package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

const guardrail = "/beta/litellm_basic_guardrail_api"

type guardrailVerdict struct {
	Action   string
	Reason   string `json:"blocked_reason"`
	Texts    []string
	Holdback []int `json:"stream_holdback_chars"`
}

func (s *service) guard(t *testing.T, action, kind string, texts ...string) guardrailVerdict {
	t.Helper()
	body, err := json.Marshal(map[string]any{"input_type": kind, "texts": texts})
	require.NoError(t, err)
	a := s.do(t, "POST", guardrail, strings.NewReader(string(body)), "X-On-Violation", action)
	require.Equal(t, 200, a.StatusCode, "%s", a.body)
	var v guardrailVerdict
	require.NoError(t, json.Unmarshal(a.body, &v))
	return v
}

func TestLiteLLMGuardrail(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for name, c := range map[string]struct {
		action, kind string
		texts        []string
		want         string
		redacted     []string
	}{
		"compliant":           {kind: "response", texts: []string{"Fine. Good."}, want: "NONE"},
		"violating":           {kind: "response", texts: []string{"Fine. Not # fine."}, want: "BLOCKED"},
		"second choice":       {kind: "response", texts: []string{"Fine.", "Not # fine."}, want: "BLOCKED"},
		"empty":               {kind: "response", texts: []string{"", "  "}, want: "NONE"},
		"reasoning":           {kind: "response", texts: []string{"<think>Not # fine.</think>Fine."}, want: "NONE"},
		"request":             {kind: "request", texts: []string{"Be kind.", "Not # fine."}, want: "BLOCKED"},
		"redact":              {"redact", "response", []string{"Fine 🙂. Not # fine. Good."}, "GUARDRAIL_INTERVENED", []string{"Fine 🙂. [redacted] Good."}},
		"redact a choice":     {"redact", "response", []string{"Fine.", "Bad #. Bad #!"}, "GUARDRAIL_INTERVENED", []string{"Fine.", "[redacted] [redacted]"}},
		"redact a request":    {"redact", "request", []string{"Not # fine. Good."}, "GUARDRAIL_INTERVENED", []string{"[redacted] Good."}},
		"redact nothing":      {action: "redact", kind: "response", texts: []string{"Fine."}, want: "NONE"},
		"text that is a mark": {action: "redact", kind: "response", texts: []string{"[redacted]"}, want: "NONE"},
	} {
		t.Run(name, func(t *testing.T) {
			v := s.guard(t, c.action, c.kind, c.texts...)
			require.Equal(t, c.want, v.Action)
			require.Equal(t, c.redacted, v.Texts)
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

// What a stream has shown is the start of all that it shows later, whether or not an
// utterance violates only while the response is short, and nothing that violates is
// shown.
func TestLiteLLMStream(t *testing.T) {
	long := rewardmodel.Aspect{Name: "rudeness", Weight: 1, LengthSlope: 2} // # violates in up to 4 utterances
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "m", Version: "v", Aspects: []rewardmodel.Aspect{long}}, &model{}, runes{}, nil)
	require.NoError(t, err)
	t.Cleanup(scorer.Close)
	for name, s := range map[string]*service{
		"fixed threshold":     start(t, scorerOf(t, &model{}, 0)),
		"threshold by length": start(t, scorer),
	} {
		t.Run(name, func(t *testing.T) {
			text := []rune("Fine 🙂. Not # fine. Good. Yes, e.g. this… One more. And one. Bad #. Another one. The end.")
			var shown string
			for end := 1; end <= len(text); end += 3 {
				raw := string(text[:end])
				v := s.guard(t, "redact", "response", raw)
				if v.Texts == nil {
					v.Texts = []string{raw}
				}
				all := []rune(v.Texts[0])
				now := string(all[:len(all)-v.Holdback[0]])
				require.True(t, strings.HasPrefix(now, shown), "%q was shown, then %q", shown, now)
				shown = now
				require.NotContains(t, shown, "#")
			}
		})
	}
}
