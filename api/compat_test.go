package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel"
)

// errorMembers are the members of an error response of each project: "a.b" is member
// b of object a. Their values are strings, numbers or null.
var errorMembers = map[string][]string{
	"openrlhf":    {"error.code", "error.message", "error.request_id"},
	"slime":       {"error.code", "error.message", "error.request_id"},
	"vllm":        {"error.code", "error.message", "error.param", "error.type"},
	"moderations": {"error.code", "error.message", "error.param", "error.type"},
	"sglang":      {"code", "message", "object", "param", "type"},
	"tei":         {"error", "error_type"},
	"fms":         {"code", "message"},
	"litellm":     {"error.code", "error.message", "error.request_id"},
	"oip":         {"error"},
}

func requireShape(t *testing.T, project string, body []byte) {
	t.Helper()
	var outer map[string]any
	require.NoError(t, json.Unmarshal(body, &outer), "%s", body)
	var members []string
	for name, value := range outer {
		inner, ok := value.(map[string]any)
		if !ok {
			members = append(members, name)
		}
		for nested := range inner {
			if name != "error" || nested != "field" {
				members = append(members, name+"."+nested)
			}
		}
	}
	slices.Sort(members)
	require.Equal(t, errorMembers[project], members, "%s", body)
}

// scoringRequests returns the golden requests that score something.
func scoringRequests(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(goldenRequests(t), func(file string) bool {
		answer, err := filepath.Glob(strings.TrimSuffix(file, ".request") + ".answer")
		require.NoError(t, err)
		require.Len(t, answer, 1)
		method, path, _, _ := readGolden(t, file)
		status, _, _, _ := readGolden(t, answer[0])
		return status != "200" || method != "POST" || strings.HasPrefix(path, "/v2/repository") ||
			strings.HasSuffix(file, "nothing_for_this_server.request")
	})
}

// Every failure has the status and error format of the project; none is 429, after
// which verl gives up.
func TestCompatFailures(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		tei    int // where it differs
		kind   string
		retry  string
	}{
		"overloaded": {err: &rewardmodel.OverloadedError{RetryAfter: 3 * time.Second}, status: 503, kind: "Overloaded", retry: "3"},
		"not ready":  {err: rewardmodel.ErrNotReady, status: 503, kind: "Unhealthy", retry: "1"},
		"closed":     {err: rewardmodel.ErrClosed, status: 503, kind: "Unhealthy", retry: "1"},
		"late":       {err: context.DeadlineExceeded, status: 504, kind: "Backend"},
		"NaN":        {err: fmt.Errorf("%w: NaN", rewardmodel.ErrModel), status: 500, tei: 424, kind: "Backend"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
				return rewardmodel.ScoreResponse{}, c.err
			}))
			for _, file := range scoringRequests(t) {
				project := filepath.Base(filepath.Dir(file))
				method, path, body, headers := readGolden(t, file)
				a := s.do(t, method, path, strings.NewReader(body), headers...)
				want := c.status
				if project == "tei" && c.tei != 0 {
					want = c.tei
				}
				require.Equal(t, want, a.StatusCode, file)
				require.Equal(t, c.retry, a.Header.Get("Retry-After"), file)
				requireShape(t, project, a.body)
				if project == "tei" {
					require.Contains(t, string(a.body), `"error_type":"`+c.kind+`"`)
				}
			}
		})
	}
}

// Errors before the adapter have the error format of the project, too.
func TestCompatRejections(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Tokens = tokens(t) }),
		config(func(c *api.Config) { c.MaxBody, c.Limits.MaxResponses, c.TrustLoopback = 1000, 2, true }))
	body := strings.NewReader
	for _, file := range scoringRequests(t) {
		project := filepath.Base(filepath.Dir(file))
		method, path, _, _ := readGolden(t, file)
		for name, c := range map[string]struct {
			answer answer
			status int
		}{
			"no token":      {s.do(t, method, path, body("{}"), "X-Forwarded-For", "192.0.2.7"), 401},
			"bad token":     {s.do(t, method, path, body("{}"), "Authorization", "Bearer nobody"), 401},
			"no scope":      {s.do(t, method, path, body("{}"), "Authorization", "Bearer "+feedbackToken), 403},
			"method":        {s.do(t, "PUT", path, body("{}")), 405},
			"too large":     {s.do(t, method, path, body(strings.Repeat(" ", 2000))), 413},
			"media type":    {s.do(t, method, path, body("{}"), "Content-Type", "text/html"), 415},
			"broken":        {s.do(t, method, path, body(`{"`)), 400},
			"invalid UTF-8": {s.do(t, method, path, body("{\"input\":\"\xff\"}")), 400},
		} {
			want := c.status
			if project == "tei" && want == 400 {
				want = 422
			}
			require.Equal(t, want, c.answer.StatusCode, "%s: %s: %s", file, name, c.answer.body)
			requireShape(t, project, c.answer.body)
		}
	}
	for path, body := range map[string]string{
		"/get_reward":            `{"query":["a","b","c"]}`,
		"/classify":              `{"input":["a","b","c"]}`,
		"/predict":               `{"inputs":[["a"],["b"],["c"]]}`,
		"/api/v1/text/contents":  `{"contents":["a","b","c"]}`,
		guardrail:                `{"texts":["a","b","c"]}`,
		"/v2/models/assay/infer": `{"inputs":[{"name":"text","shape":[3],"datatype":"BYTES","data":["a","b","c"]}]}`,
	} {
		require.Equal(t, 413, s.do(t, "POST", path, strings.NewReader(body)).StatusCode, path)
	}
	for _, texts := range []string{`[]`, `["a","b","c"]`, `["a","b","c","d"]`} { // the wrong type, regardless of the length
		got := s.do(t, "POST", "/predict", strings.NewReader(`{"inputs":[`+texts+`]}`))
		require.Equal(t, 422, got.StatusCode, "%s: %s", texts, got.body)
		require.Contains(t, string(got.body), "must be", texts)
	}
}

// A response has the same reward at every endpoint.
func TestCompatSameReward(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	var native struct{ Results []struct{ Reward float64 } }
	require.NoError(t, json.Unmarshal(s.score(t, one("Fine 🙂. Not # fine.")).body, &native))
	want := native.Results[0].Reward
	text := `"Fine 🙂. Not # fine."`
	for path, c := range map[string]struct {
		body string
		read func(any) any
	}{
		"/get_reward":    {`{"query":[` + text + `]}`, at("rewards", 0)},
		"/slime":         {`{"prompt":"p","response":` + text + `}`, at()},
		"/slime/result":  {`{"prompt":"p","response":` + text + `}`, at("reward")},
		"/classify":      {`{"model":"m","input":` + text + `,"use_activation":false}`, at("data", -1, "probs", -1)},
		"/score":         {`{"text_1":"p","text_2":` + text + `}`, at("data", -1, "score")},
		"/v1/embeddings": {`{"model":"m","input":` + text + `}`, at("data", -1, "embedding", -1)},
		"/predict":       {`{"inputs":[["p",` + text + `]]}`, at(0, 1, "score")},
		"/v2/models/any/infer": {
			`{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":[` + text + `]}]}`, at("outputs", 0, "data", 0),
		},
	} {
		a := s.do(t, "POST", path, strings.NewReader(c.body))
		require.Equal(t, 200, a.StatusCode, "%s", a.body)
		var value any
		require.NoError(t, json.Unmarshal(a.body, &value))
		require.InDelta(t, want, c.read(value), 1e-7, path)
	}
}

// at returns a function that reads the value at a path of members and elements; -1 is
// the last element.
func at(path ...any) func(any) any {
	return func(value any) any {
		for _, step := range path {
			switch step := step.(type) {
			case string:
				value = value.(map[string]any)[step]
			case int:
				elements := value.([]any)
				value = elements[(step+len(elements))%len(elements)]
			}
		}
		return value
	}
}

// null is an error and not an empty text with reward 0.
func TestCompatNullIsAnError(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for path, body := range map[string]string{
		"/get_reward":            `{"query":["a",null]}`,
		"/slime":                 `{"prompt":"a","response":null}`,
		"/classify":              `{"input":null}`,
		"/score":                 `{"text_1":"a","text_2":[null]}`,
		"/v1/embeddings":         `{"input":[null]}`,
		"/v1/moderations":        `{"input":["a",null]}`,
		"/predict":               `{"inputs":[["a"],[null]]}`,
		"/api/v1/text/contents":  `{"contents":[null]}`,
		"/v2/models/assay/infer": `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":[null]}]}`,
	} {
		a := s.do(t, "POST", path, strings.NewReader(body))
		require.Contains(t, []int{400, 422}, a.StatusCode, "%s: %s", path, a.body)
	}
	for path, body := range map[string]string{
		"/classify":       `{"messages":[{"role":"assistant","content":%s}]}`,
		"/slime":          `{"prompt":[{"role":"user","content":%s}],"response":"a"}`,
		"/v1/moderations": `{"input":%s}`,
	} {
		for _, content := range []string{`7`, `true`, `{"text":"a"}`, `[{"type":"text","text":null}]`, `[{"type":"text"}]`, `[{"type":"text","text":7}]`} {
			a := s.do(t, "POST", path, strings.NewReader(fmt.Sprintf(body, content)))
			require.Equal(t, 400, a.StatusCode, "%s %s: %s", path, content, a.body)
		}
	}
	a := s.do(t, "POST", "/v1/moderations", strings.NewReader(`{"input":[{}]}`))
	require.Contains(t, string(a.body), `"param":"input"`)
	a = s.do(t, "POST", "/get_reward", strings.NewReader(`{"query":["a"],"prompts":[null],"labels":[null]}`))
	require.Equal(t, 200, a.StatusCode)
}

// A name in the field model is a pin only when a version that serves has it.
func TestCompatModel(t *testing.T) {
	var asked []string
	s := start(t, scorerFunc(func(_ context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		asked = append(asked, r.Model)
		return rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Version: "v7"}, Results: make([]rewardmodel.Result, len(r.Responses))}, nil
	}))
	for _, c := range []struct{ name, want string }{{"gpt-rm", ""}, {"default", ""}, {"v6", "v6"}} {
		for path, body := range map[string]string{
			"/classify":                       `{"input":"a","model":"` + c.name + `"}`,
			"/score":                          `{"text_1":"a","text_2":"b","model":"` + c.name + `"}`,
			"/v1/embeddings":                  `{"input":"a","model":"` + c.name + `"}`,
			"/v1/moderations":                 `{"input":"a","model":"` + c.name + `"}`,
			"/v2/models/" + c.name + "/infer": `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}]}`,
		} {
			asked = nil
			require.Equal(t, 200, s.do(t, "POST", path, strings.NewReader(body)).StatusCode, path)
			require.Equal(t, []string{c.want}, asked, path)
		}
	}
}

// OpenRLHF posts one sample per request and many concurrently: those that wait for
// the model become one batch.
func TestOpenRLHFBatchesAcrossRequests(t *testing.T) {
	m := gated()
	scorer := scorerOf(t, m, 0)
	s := start(t, scorer)
	const clients = 16
	var group sync.WaitGroup
	ask := func(i int) {
		body := fmt.Sprintf(`{"query":["Response %d."],"prompts":[""],"labels":[""]}`, i)
		group.Go(func() { s.do(t, "POST", "/get_reward", strings.NewReader(body)) })
	}
	ask(0)
	await(t, m.entered, "the first batch")
	for i := 1; i < clients; i++ {
		ask(i)
	}
	require.Eventually(t, func() bool { return waiting(t, s) >= clients }, timeout, 10*time.Millisecond)
	m.release <- struct{}{}
	batches := 1
	answered := make(chan struct{})
	go func() { group.Wait(); close(answered) }()
	for open := true; open; {
		select {
		case <-m.entered:
			batches++
			m.release <- struct{}{}
		case <-answered:
			open = false
		}
	}
	require.Less(t, batches, clients/2)
}

// waiting returns the number of requests in flight, except its own.
func waiting(t *testing.T, s *service) int {
	t.Helper()
	for line := range strings.Lines(string(s.get(t, "/metrics").body)) {
		var n int
		if _, err := fmt.Sscanf(line, "assay_http_requests_in_flight %d", &n); err == nil {
			return n - 1
		}
	}
	return 0
}

// A client of several servers sends empty requests to some of them, even while those
// are not ready.
func TestOpenRLHFFansOut(t *testing.T) {
	s := start(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		return rewardmodel.ScoreResponse{}, rewardmodel.ErrNotReady
	}))
	a := s.do(t, "POST", "/get_reward", strings.NewReader(`{"query":[],"prompts":[],"labels":[]}`))
	require.Equal(t, 200, a.StatusCode)
	require.Contains(t, string(a.body), `"rewards":[],"scores":[]`)
	require.NotContains(t, string(a.body), "null")

	a = s.do(t, "POST", "/get_reward", strings.NewReader(`{"query":["a"],"prompts":["a","b"]}`))
	require.Equal(t, 400, a.StatusCode)
}

// Each value in extra_logs becomes a tensor with one element per query, and spans
// index the response without its prompt, in code points.
func TestOpenRLHFResponse(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	prompt := "<|im_start|>user\n# 🙂<|im_end|>\n<|im_start|>assistant\n"
	queries := []string{prompt + "é🙂. Not # fine.<|im_end|>", prompt + "Fine.<|im_end|>", prompt + "<|im_end|>"}
	body, err := json.Marshal(map[string]any{"query": queries, "prompts": []string{prompt, prompt, prompt}, "labels": []any{nil, 1, "x"}})
	require.NoError(t, err)
	a := s.do(t, "POST", "/get_reward", strings.NewReader(string(body)))
	var got struct {
		Rewards, Scores []float64
		Logs            map[string][]float64 `json:"extra_logs"`
		Witnesses       []*rewardmodel.Witness
		Responses       [][]struct{ Start, End int }
	}
	require.NoError(t, json.Unmarshal(a.body, &got))
	require.Len(t, got.Rewards, 3)
	require.Equal(t, got.Rewards, got.Scores)
	for name, values := range got.Logs {
		require.Len(t, values, 3, name)
		for _, v := range values {
			require.False(t, math.IsNaN(v), name)
		}
	}
	for i, query := range queries {
		span := got.Responses[i][0]
		response := []rune(query)[span.Start:span.End]
		require.Equal(t, got.Logs["response_length"][i], float64(len(response)))
		if witness := got.Witnesses[i]; witness != nil {
			require.Equal(t, witness.Text, string(response[witness.Start:witness.End]))
		}
	}
	require.Equal(t, "Not # fine.", got.Witnesses[0].Text)
	require.Nil(t, got.Witnesses[2])
	require.Contains(t, string(a.body), `"empty":[0.0,0.0,1.0]`, "Python must not parse them as integers")

	a = s.do(t, "POST", "/slime", strings.NewReader(`{"prompt":"p","response":""}`))
	require.Equal(t, "0.0\n", string(a.body))
}

// The response of /predict has the timing headers that clients of TEI read.
func TestTEITiming(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	a := s.do(t, "POST", "/predict", strings.NewReader(`{"inputs":"Fine."}`))
	for _, name := range []string{"x-compute-time", "x-total-time", "x-tokenization-time", "x-queue-time", "x-inference-time"} {
		require.Regexp(t, `^\d+$`, a.Header.Get(name), name)
	}
}

// The probes of other projects report a drain like /readyz.
func TestCompatProbes(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	probes := []string{"/health", "/ping", "/v2/health/ready", "/v2/models/assay/ready"}
	for _, path := range probes {
		require.Equal(t, 200, s.get(t, path).StatusCode, path)
	}
	s.Drain()
	for _, path := range probes {
		a := s.get(t, path)
		require.Equal(t, http.StatusServiceUnavailable, a.StatusCode, path)
		require.NotEmpty(t, a.Header.Get("Retry-After"), path)
	}
	require.Equal(t, 200, s.get(t, "/v2/health/live").StatusCode)
}

// A top_k that JSON Schema calls an integer is one, however it is written.
func TestPredictTopK(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for value, status := range map[string]int{"1": 200, "2.0": 200, "1e1": 200, "0": 422, "1.5": 422, `"1"`: 422} {
		got := s.do(t, "POST", "/predict", strings.NewReader(`{"inputs":"text","parameters":{"top_k":`+value+`}}`))
		require.Equal(t, status, got.StatusCode, value)
	}
}
