package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

func gzipped(t testing.TB, plain []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, err := z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return buf.Bytes()
}

func zstandard(t testing.TB, plain []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20))
	require.NoError(t, err)
	defer z.Close()
	return z.EncodeAll(plain, nil)
}

// one returns a request with one response, given as the content of a JSON string.
func one(inside string) string { return `{"responses":[{"response":"` + inside + `"}]}` }

func TestBadInput(t *testing.T) {
	const mib = 1 << 20
	big := []byte(one(strings.Repeat("a", 40*mib)))
	good := []byte(one("fine"))
	many := `{"responses":[` + strings.Repeat(`{"response":"a"},`, 10_000) + `{"response":"a"}]}`

	cases := map[string]struct {
		body    any // string, []byte or io.Reader; nothing when nil
		headers []string
		method  string // POST when empty
		path    string // /v1/score when empty
		status  int
		code    string
		field   string
		message string
	}{
		"no body":              {body: "", status: 400, code: "invalid", message: "send one JSON object"},
		"broken JSON":          {body: `{"responses":[{"response":"a"}`, status: 400, code: "invalid", message: "too early"},
		"not JSON":             {body: `response=a`, status: 400, code: "invalid", message: "not valid JSON"},
		"two documents":        {body: one("a") + one("b"), status: 400, code: "invalid", message: "data after"},
		"an array":             {body: `[]`, status: 400, code: "invalid", message: "must be an object, got a list"},
		"null":                 {body: `null`, status: 400, code: "invalid", message: "got null"},
		"wrong list":           {body: `{"responses":"a"}`, status: 400, code: "invalid", field: "responses", message: "must be a list, got a string"},
		"wrong item":           {body: `{"responses":["a"]}`, status: 400, code: "invalid", field: "responses[0]", message: "must be an object, got a string"},
		"wrong response":       {body: `{"responses":[{"response":1}]}`, status: 400, code: "invalid", field: "responses[0].response", message: "must be a string, got a number"},
		"null response":        {body: `{"responses":[{"response":null}]}`, status: 400, code: "invalid", field: "responses[0].response", message: "got null"},
		"wrong instance":       {body: `{"responses":[{"instances":["a",2]}]}`, status: 400, code: "invalid", field: "responses[0].instances[1]", message: "must be a string"},
		"no responses":         {body: `{}`, status: 400, code: "invalid", field: "responses", message: "missing"},
		"nothing to score":     {body: `{"responses":[{"id":"x"}]}`, status: 400, code: "invalid", field: "responses[0]", message: "exactly one of"},
		"two to score":         {body: `{"responses":[{"response":"a","instances":[]}]}`, status: 400, code: "invalid", field: "responses[0]", message: "exactly one of"},
		"given twice":          {body: `{"responses":[],"responses":[]}`, status: 400, code: "invalid", field: "responses", message: "twice"},
		"empty list":           {body: `{"responses":[]}`, status: 422, code: "unprocessable", field: "responses", message: "empty"},
		"10,001 responses":     {body: many, status: 413, code: "too_large", field: "responses", message: "8192"},
		"unknown option":       {body: `{"responses":[{"response":"a"}],"options":{"rewards":"raw"}}`, status: 400, code: "invalid", field: "options.rewards", message: "not an option"},
		"unknown value":        {body: `{"responses":[{"response":"a"}],"options":{"reward":"probit"}}`, status: 400, code: "invalid", field: "options.reward", message: "compliance, logit, raw"},
		"top_k of 0":           {body: `{"responses":[{"response":"a"}],"options":{"top_k":0}}`, status: 400, code: "invalid", field: "options.top_k", message: "at least 1"},
		"null option":          {body: `{"responses":[{"response":"a"}],"options":{"instances":null}}`, status: 400, code: "invalid", field: "options.instances", message: "got null"},
		"another model":        {body: `{"responses":[{"response":"a"}],"model":"v8"}`, status: 404, code: "not_found", field: "model", message: "not loaded"},
		"invalid UTF-8":        {body: one("a\xffb"), status: 400, code: "invalid", message: "UTF-8"},
		"overlong UTF-8":       {body: one("\xc0\xaf"), status: 400, code: "invalid", message: "UTF-8"},
		"lone high surrogate":  {body: one(`a\ud83d`), status: 400, code: "invalid", message: "surrogate"},
		"lone low surrogate":   {body: one(`\ude00a`), status: 400, code: "invalid", message: "surrogate"},
		"raw NUL byte":         {body: one("a\x00b"), status: 400, code: "invalid", message: "not valid JSON"},
		"JSON bomb":            {body: `{"x":` + strings.Repeat(`[`, mib), status: 400, code: "invalid", message: "deeper"},
		"JSON bomb of objects": {body: strings.Repeat(`{"responses":`, mib/16), status: 400, code: "invalid", message: "list"},
		"JSON bomb in metadata": {body: `{"responses":[{"response":"a","metadata":` + strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200) + `}]}`,
			status: 400, code: "invalid", message: "deeper"},

		"40 MB body":           {body: big, status: 413, code: "too_large", message: "33554432 bytes; send fewer responses per request, or raise --max-body"},
		"40 MB body, chunked":  {body: io.MultiReader(bytes.NewReader(big)), status: 413, code: "too_large", message: "--max-body"},
		"gzip bomb":            {body: gzipped(t, big), headers: []string{"Content-Encoding", "gzip"}, status: 413, code: "too_large", message: "--max-body"},
		"zstd bomb":            {body: zstandard(t, big), headers: []string{"Content-Encoding", "zstd"}, status: 413, code: "too_large", message: "--max-body"},
		"not gzip":             {body: good, headers: []string{"Content-Encoding", "gzip"}, status: 400, code: "invalid", field: "Content-Encoding", message: "not gzip"},
		"half a gzip":          {body: gzipped(t, good)[:30], headers: []string{"Content-Encoding", "gzip"}, status: 400, code: "invalid", field: "Content-Encoding", message: "truncated or corrupt gzip"},
		"not zstd":             {body: good, headers: []string{"Content-Encoding", "zstd"}, status: 400, code: "invalid", field: "Content-Encoding", message: "truncated or corrupt zstd"},
		"brotli":               {body: good, headers: []string{"Content-Encoding", "br"}, status: 415, code: "unsupported_media_type", field: "Content-Encoding", message: "gzip, zstd"},
		"gzip of gzip":         {body: good, headers: []string{"Content-Encoding", "gzip, gzip"}, status: 415, code: "unsupported_media_type", field: "Content-Encoding", message: "not supported"},
		"a form":               {body: good, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: "unsupported_media_type", field: "Content-Type", message: "send Content-Type: application/json"},
		"plain text":           {body: good, headers: []string{"Content-Type", "text/plain"}, status: 415, code: "unsupported_media_type", field: "Content-Type", message: "not JSON"},
		"broken content type":  {body: good, headers: []string{"Content-Type", "application/json; charset"}, status: 415, code: "unsupported_media_type", field: "Content-Type", message: "not JSON"},
		"Latin-1":              {body: good, headers: []string{"Content-Type", "application/json; charset=latin1"}, status: 415, code: "unsupported_media_type", field: "Content-Type", message: "UTF-8"},
		"timeout of words":     {body: good, headers: []string{"X-Request-Timeout", "soon"}, status: 400, code: "invalid", field: "X-Request-Timeout", message: "such as 30"},
		"timeout of 0":         {body: good, headers: []string{"X-Request-Timeout", "0"}, status: 400, code: "invalid", field: "X-Request-Timeout", message: "is not a timeout"},
		"negative timeout":     {body: good, headers: []string{"X-Request-Timeout", "-3s"}, status: 400, code: "invalid", field: "X-Request-Timeout", message: "is not a timeout"},
		"priority of its own":  {body: good, headers: []string{"X-Priority", "urgent"}, status: 400, code: "invalid", field: "X-Priority", message: "interactive, bulk"},
		"timeout not a number": {body: good, headers: []string{"X-Request-Timeout", "NaN"}, status: 400, code: "invalid", field: "X-Request-Timeout", message: "is not a timeout"},
		"another origin":       {body: good, headers: []string{"Origin", "https://evil.example"}, status: 403, code: "forbidden_origin", field: "Origin", message: "another origin"},
		"another site":         {body: good, headers: []string{"Sec-Fetch-Site", "cross-site"}, status: 403, code: "forbidden_origin", field: "Origin", message: "another origin"},

		"wrong method":          {method: "GET", status: 405, code: "method_not_allowed", message: "use POST, OPTIONS"},
		"invented method":       {method: "BREW", status: 405, code: "method_not_allowed", message: `"BREW" is not allowed`},
		"wrong method on probe": {method: "DELETE", path: "/livez", status: 405, code: "method_not_allowed", message: "use GET, HEAD, OPTIONS"},
		"unknown path":          {path: "/v2/score", body: good, status: 404, code: "not_found", message: "GET / lists"},
		"trailing slash":        {path: "/v1/score/", body: good, status: 404, code: "not_found", message: `"/v1/score/"`},
		"unknown model":         {method: "GET", path: "/v1/models/v9", status: 404, code: "not_found", message: "/v1/models lists"},
	}
	s := start(t, scorerOf(t, &model{}, 0))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.method == "" {
				c.method = http.MethodPost
			}
			if c.path == "" {
				c.path = "/v1/score"
			}
			var body io.Reader
			switch b := c.body.(type) {
			case string:
				body = strings.NewReader(b)
			case []byte:
				body = bytes.NewReader(b)
			case io.Reader:
				body = b
			}
			got := s.do(t, c.method, c.path, body, c.headers...)
			code, field, message := got.failure(t)
			require.Equal(t, c.status, got.StatusCode, message)
			require.Equal(t, c.code, code, message)
			if c.field != "" {
				require.Equal(t, c.field, field, message)
			}
			require.Contains(t, message, c.message)
			require.Less(t, len(message), 500)
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
		})
	}
}

func TestOddButLegalInput(t *testing.T) {
	good := []byte(one("fine"))
	cases := map[string]struct {
		body    []byte
		headers []string
		text    string // of the witness; none when empty
	}{
		"NUL characters":       {body: []byte(one(`a\u0000b`)), text: "a\x00b"},
		"a pair of surrogates": {body: []byte(one(`\ud83d\ude00 ok`)), text: "\U0001F600 ok"},
		"only space":           {body: []byte(one(` \n\t`))},
		"no characters":        {body: []byte(one(``))},
		"unknown fields":       {body: []byte(`{"responses":[{"response":"fine","x":1}],"y":{}}`), text: "fine"},
		"metadata":             {body: []byte(`{"responses":[{"response":"fine","metadata":[1,{"a":null}]}]}`), text: "fine"},
		"pinned model":         {body: []byte(`{"responses":[{"response":"fine"}],"model":"v7"}`), text: "fine"},
		"no content type":      {body: good, headers: []string{"Content-Type", ""}, text: "fine"},
		"a charset":            {body: good, headers: []string{"Content-Type", `application/json; charset="UTF-8"`}, text: "fine"},
		"a kind of JSON":       {body: good, headers: []string{"Content-Type", "application/problem+json"}, text: "fine"},
		"gzip":                 {body: gzipped(t, good), headers: []string{"Content-Encoding", "gzip"}, text: "fine"},
		"zstd":                 {body: zstandard(t, good), headers: []string{"Content-Encoding", "zstd"}, text: "fine"},
		"identity":             {body: good, headers: []string{"Content-Encoding", "identity"}, text: "fine"},
		"the same origin":      {body: good, headers: []string{"Sec-Fetch-Site", "same-origin"}, text: "fine"},
		"a time in seconds":    {body: good, headers: []string{"X-Request-Timeout", "20.5"}, text: "fine"},
		"a priority":           {body: good, headers: []string{"X-Priority", "bulk"}, text: "fine"},
		"a duration":           {body: good, headers: []string{"X-Request-Timeout", "1m30s"}, text: "fine"},
		"an endless time":      {body: good, headers: []string{"X-Request-Timeout", strings.Repeat("9", 30)}, text: "fine"},
	}
	s := start(t, scorerOf(t, &model{}, 0))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := s.do(t, "POST", "/v1/score", bytes.NewReader(c.body), c.headers...)
			require.Equal(t, 200, got.StatusCode, "%s", got.body)
			var answer rewardmodel.ScoreResponse
			require.NoError(t, json.Unmarshal(got.body, &answer))
			require.Len(t, answer.Results, 1)
			if c.text == "" {
				require.True(t, answer.Results[0].Empty)
				require.Nil(t, answer.Results[0].Witness)
				return
			}
			require.Equal(t, c.text, answer.Results[0].Witness.Text)
		})
	}
}

func TestResultsKeepTheOrderOfTheRequest(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	var items []string
	for i := range 300 {
		text := "Fine words."
		if i%7 == 0 {
			text = "Fine words. Then # came."
		}
		items = append(items, fmt.Sprintf(`{"id":"r%d","response":%q}`, i, text))
	}
	got := s.score(t, `{"responses":[`+strings.Join(items, ",")+`]}`)
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	var answer rewardmodel.ScoreResponse
	require.NoError(t, json.Unmarshal(got.body, &answer))
	require.Len(t, answer.Results, 300)
	for i, r := range answer.Results {
		require.Equal(t, fmt.Sprintf("r%d", i), r.ID)
		require.Equal(t, i%7 != 0, r.Compliant)
	}
	require.Equal(t, "Then # came.", answer.Results[7].Witness.Text)
	require.EqualValues(t, 300, s.log.request(t)["responses"])
}
