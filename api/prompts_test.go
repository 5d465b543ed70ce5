package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

// Every protocol that carries the prompt passes it on as plain text, and offsets
// index the response only.
func TestPrompts(t *testing.T) {
	const (
		chatml = `<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n`
		llama3 = `<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n`
		gptOSS = `<|start|>user<|message|>Why?<|end|><|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>`
	)
	var got rewardmodel.Request
	real := scorerOf(t, &model{}, 0)
	s := start(t, scorerFunc(func(ctx context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		got = r
		return real.Score(ctx, r)
	}))
	for name, c := range map[string]struct{ path, body, prompt string }{
		"score":                        {"/v1/score", `{"responses":[{"prompt":"Why?","response":"So."}]}`, "Why?"},
		"OpenRLHF, prompts":            {"/get_reward", `{"query":["Why? So."],"prompts":["Why?"]}`, "Why?"},
		"OpenRLHF, template":           {"/get_reward", `{"query":["` + chatml + `So.<|im_end|>"],"prompts":["` + chatml + `"]}`, "Be brief.\nWhy?"},
		"OpenRLHF, no prompts":         {"/get_reward", `{"query":["` + llama3 + `So.<|eot_id|>"]}`, "Why?"},
		"OpenRLHF, prompt of its own":  {"/get_reward", `{"query":["So."],"prompts":["` + chatml + `"]}`, "Be brief.\nWhy?"},
		"OpenRLHF, plain":              {"/get_reward", `{"query":["User: Why?\nAssistant: So."]}`, "Why?"},
		"OpenRLHF, hidden reasoning":   {"/get_reward", `{"query":["` + gptOSS + `So.<|return|>"]}`, "Why?"},
		"slime":                        {"/slime", `{"prompt":"Why?","response":"So."}`, "Why?"},
		"slime, template":              {"/slime/result", `{"prompt":"` + chatml + `","response":"So.<|im_end|>"}`, "Be brief.\nWhy?"},
		"slime, messages":              {"/slime", `{"prompt":[{"role":"user","content":"Why?"}],"response":"So."}`, "Why?"},
		"vLLM, verl: classify":         {"/classify", `{"input":"` + chatml + `So.<|im_end|>"}`, "Be brief.\nWhy?"},
		"vLLM: score":                  {"/score", `{"text_1":"Why?","text_2":["So."]}`, "Why?"},
		"vLLM: score, template":        {"/score", `{"text_1":"` + llama3 + `","text_2":["So."]}`, "Why?"},
		"SGLang: classify":             {"/classify", `{"text":["` + chatml + `So.<|im_end|>"]}`, "Be brief.\nWhy?"},
		"SGLang, verl: embeddings":     {"/v1/embeddings", `{"input":["` + llama3 + `So."]}`, "Why?"},
		"TEI, pair":                    {"/predict", `{"inputs":["Why?","So."]}`, "Why?"},
		"TEI, batch of pairs":          {"/predict", `{"inputs":[["` + chatml + `","So."]]}`, "Be brief.\nWhy?"},
		"TEI, conversation":            {"/predict", `{"inputs":"` + chatml + `So."}`, "Be brief.\nWhy?"},
		"Open Inference Protocol":      {"/v2/models/assay/infer", `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["So."]},{"name":"prompt","shape":[1],"datatype":"BYTES","data":["Why?"]}]}`, "Why?"},
		"Open Inference Protocol, one": {"/v2/models/assay/infer", `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["` + chatml + `So."]}]}`, "Be brief.\nWhy?"},
		"text without a prompt":        {"/classify", `{"input":"So."}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.do(t, "POST", c.path, strings.NewReader(c.body))
			require.Equal(t, 200, a.StatusCode, "%s", a.body)
			require.Len(t, got.Responses, 1)
			require.Equal(t, c.prompt, got.Responses[0].Prompt)
			require.Equal(t, "So.", strings.TrimSpace(*got.Responses[0].Response))
			scored, err := real.Score(t.Context(), got)
			require.NoError(t, err)
			require.Equal(t, "So.", scored.Results[0].Witness.Text)
			require.Zero(t, scored.Results[0].Witness.Start)
			require.Equal(t, 3, scored.Results[0].Witness.End)
		})
	}
	a := s.do(t, "POST", "/classify", strings.NewReader(`{"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":"So."}]}`))
	require.Equal(t, 200, a.StatusCode, "%s", a.body)
	require.Equal(t, []rewardmodel.Message{{Role: "user", Content: "Why?"}, {Role: "assistant", Content: "So."}}, got.Responses[0].Messages)
}
