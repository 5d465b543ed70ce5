package api_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/api/access"
)

const (
	scoreToken    = "score-score-score"
	feedbackToken = "feedback-feedback"
	adminToken    = "admin-admin-admin"
)

func tokens(t *testing.T) *access.Tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	file := scoreToken + " score trainer\n" + feedbackToken + " feedback\n" + adminToken + " admin ops\n"
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	loaded, err := access.Load(path, zerolog.Nop())
	require.NoError(t, err)
	return loaded
}

// handler is the service without a connection, so that a test can set the peer.
func handler(t *testing.T, with *access.Tokens, change ...func(*api.Config)) (http.Handler, logBook) {
	t.Helper()
	cfg := api.DefaultConfig()
	for _, c := range change {
		c(&cfg)
	}
	log := make(logBook, 64)
	server, err := api.New(cfg, api.Parts{Scorer: scorerOf(t, &model{}, 0), Models: served, Tokens: with}, zerolog.New(log), prometheus.NewRegistry())
	require.NoError(t, err)
	return server.Handler(), log
}

const (
	near = "127.0.0.1:50000"
	far  = "192.0.2.7:50000"
)

func TestWhoMayScore(t *testing.T) {
	const mapped, six = "[::ffff:127.0.0.9]:1", "[::1]:50000"
	for name, c := range map[string]struct {
		peer     string
		headers  []string
		open     bool // no token file
		insecure bool
		trust    bool
		status   int
		by       string
	}{
		"near":                     {peer: near, status: 401},
		"near, trusted":            {peer: near, trust: true, status: 200, by: "loopback"},
		"near, trusted, IPv6":      {peer: six, trust: true, status: 200, by: "loopback"},
		"near, trusted, mapped":    {peer: mapped, trust: true, status: 200, by: "loopback"},
		"near, trusted, localhost": {peer: near, headers: []string{"Host", "localhost:8080"}, trust: true, status: 200, by: "loopback"},
		"far, trusted":             {peer: far, trust: true, status: 401},
		"near, token":              {peer: near, headers: []string{"Authorization", "Bearer " + scoreToken}, status: 200, by: "trainer"},
		"near, wrong token":        {peer: near, headers: []string{"Authorization", "Bearer wrong-wrong-wrong"}, status: 401},
		"near, other scheme":       {peer: near, headers: []string{"Authorization", "Basic YTpi"}, status: 401},
		"near, other scope":        {peer: near, headers: []string{"Authorization", "Bearer " + feedbackToken}, status: 403},
		"proxy":                    {peer: near, headers: []string{"X-Forwarded-For", "192.0.2.7"}, trust: true, status: 401},
		"proxy by the standard":    {peer: near, headers: []string{"Forwarded", "for=192.0.2.7"}, trust: true, status: 401},
		"open, proxy":              {peer: near, headers: []string{"X-Forwarded-For", "192.0.2.7"}, open: true, status: 401},
		"proxy, token":             {peer: near, headers: []string{"X-Forwarded-For", "192.0.2.7", "Authorization", "Bearer " + scoreToken}, status: 200, by: "trainer"},
		"rebound name, token":      {peer: near, headers: []string{"Host", "assay.example", "Authorization", "Bearer " + scoreToken}, status: 200, by: "trainer"},
		"far":                      {peer: far, status: 401},
		"far, insecure":            {peer: far, insecure: true, status: 401},
		"far, token":               {peer: far, headers: []string{"Authorization", "Bearer " + scoreToken}, status: 200, by: "trainer"},
		"far, lower case":          {peer: far, headers: []string{"Authorization", "bearer  " + scoreToken}, status: 200, by: "trainer"},
		"far, admin":               {peer: far, headers: []string{"Authorization", "Bearer " + adminToken}, status: 200, by: "ops"},
		"far, other scope":         {peer: far, headers: []string{"Authorization", "Bearer " + feedbackToken}, status: 403},
		"far, prefix":              {peer: far, headers: []string{"Authorization", "Bearer " + scoreToken[:16]}, status: 401},
		"far, no token":            {peer: far, headers: []string{"Authorization", "Bearer "}, status: 401},
		"far, token alone":         {peer: far, headers: []string{"Authorization", scoreToken}, status: 401},
		"open, near":               {peer: near, open: true, status: 200, by: "loopback"},
		"open, any token":          {peer: near, headers: []string{"Authorization", "Bearer EMPTY"}, open: true, status: 200, by: "loopback"},
		"open, far":                {peer: far, open: true, status: 401},
		"open, insecure":           {peer: far, headers: []string{"Host", "assay.example"}, open: true, insecure: true, status: 200, by: "anonymous"},
		"open, insecure, near":     {peer: near, open: true, insecure: true, status: 200, by: "loopback"},
		"open, insecure, token":    {peer: far, headers: []string{"Authorization", "Bearer EMPTY"}, open: true, insecure: true, status: 200, by: "anonymous"},
		"invalid peer address":     {peer: "@", status: 401},
		"near, no host, as of 1.0": {peer: near, headers: []string{"Host", ""}, trust: true, status: 200, by: "loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			var with *access.Tokens
			if !c.open {
				with = tokens(t)
			}
			h, log := handler(t, with, func(cfg *api.Config) { cfg.Insecure, cfg.TrustLoopback = c.insecure, c.trust })
			r := httptest.NewRequest(http.MethodPost, "/v1/score", strings.NewReader(one("Fine.")))
			r.RemoteAddr, r.Host = c.peer, "127.0.0.1:8080"
			for i := 0; i < len(c.headers); i += 2 {
				if c.headers[i] == "Host" {
					r.Host = c.headers[i+1]
					continue
				}
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code, w.Body)
			line := log.request(t)
			switch c.status {
			case 200:
				require.Equal(t, c.by, line["by"])
				return
			case 401:
				require.Contains(t, w.Header().Get("WWW-Authenticate"), `Bearer realm="assay"`)
				require.Contains(t, w.Body.String(), `"unauthorized"`)
			case 403:
				require.Contains(t, w.Header().Get("WWW-Authenticate"), `error="insufficient_scope"`)
				require.Contains(t, w.Body.String(), "scope score")
			}
			require.NotContains(t, w.Body.String(), scoreToken)
		})
	}
}

// Every route checks its scope, and only its scope, before anything else.
func TestScopes(t *testing.T) {
	want := map[string]string{
		"GET /": "", "GET /livez": "", "GET /readyz": "", "GET /metrics": "", "GET /openapi.json": "",
		"POST /v1/score": "score", "POST /v1/live": "score", "GET /v1/live": "score", "GET /v1/models": "score", "GET /v1/models/{version}": "score",
		"POST /v1/feedback": "feedback", "GET /v1/feedback": "feedback", "GET /v1/feedback/candidates": "feedback",
		"GET /v1/training": "feedback", "GET /v1/events": "feedback", "GET /v1/scored": "feedback",
		"GET /v1/feedback/{id}/labels": "feedback", "DELETE /v1/feedback/{id}/labels": "feedback",
		"DELETE /v1/feedback/{id}": "admin", "POST /v1/models/{version}/promote": "admin",
		"POST /v1/models/rollback": "admin", "POST /v1/training": "admin", "POST /v1/training/stop": "admin",

		"POST /get_reward": "score", "POST /slime": "score", "POST /slime/result": "score",
		"POST /beta/litellm_basic_guardrail_api": "score", "POST /classify": "score", "POST /score": "score", "POST /v1/embeddings": "score", "POST /v1/moderations": "score",
		"POST /predict": "score", "GET /info": "score", "GET /health": "", "GET /ping": "",
		"POST /api/v1/text/contents": "score",
		"GET /v2":                    "", "GET /v2/health/live": "", "GET /v2/health/ready": "",
		"GET /v2/models/{model}": "score", "GET /v2/models/{model}/versions/{version}": "score",
		"GET /v2/models/{model}/config": "score", "GET /v2/models/{model}/versions/{version}/config": "score",
		"GET /v2/models/{model}/ready": "", "GET /v2/models/{model}/versions/{version}/ready": "",
		"POST /v2/models/{model}/infer": "score", "POST /v2/models/{model}/versions/{version}/infer": "score",
		"POST /v2/repository/index": "score", "POST /v2/repository/models/{model}/load": "score",
		"POST /v2/repository/models/{model}/unload": "score",

		"GET /console/session": "any", "POST /console/session": "any", "DELETE /console/session": "any",
		"GET /console/assets/{file}": "",
	}
	h, _ := handler(t, tokens(t))
	got := map[string]string{}
	require.NoError(t, chi.Walk(h.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method == http.MethodHead {
			return nil
		}
		path := strings.NewReplacer("{version}", "v7", "{id}", "r1", "{model}", "assay").Replace(route)
		status := func(token string) int {
			r := httptest.NewRequest(method, path, nil)
			r.RemoteAddr = far
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		refused := func(status int) bool { return status == 401 || status == 403 }
		name := method + " " + route
		got[name] = ""
		if refused(status("")) {
			score, feedback := !refused(status(scoreToken)), !refused(status(feedbackToken))
			switch {
			case score && feedback:
				got[name] = "any"
			case score:
				got[name] = "score"
			case feedback:
				got[name] = "feedback"
			default:
				got[name] = "admin"
			}
		}
		require.False(t, refused(status(adminToken)), "admin may do all: %s", name)
		require.Equal(t, want[name], scopeInDocument(t, method, route), name)
		return nil
	}))
	require.Equal(t, want, got)
}

func scopeInDocument(t *testing.T, method, route string) string {
	t.Helper()
	operation := document(t).Paths.Find(route).GetOperation(method)
	if operation.Security == nil {
		return ""
	}
	require.Len(t, *operation.Security, 2)
	scopes := (*operation.Security)[0]["token"]
	if len(scopes) == 0 {
		return "any"
	}
	return scopes[0]
}

// A body that an unauthenticated client announces but does not send reserves no memory for long.
func TestStrangersBodyIsNotWaitedFor(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Tokens = tokens(t) }),
		config(func(c *api.Config) { c.HeaderTimeout = timeout / 200 }))
	conn := s.dial(t, rawPost(1000, "{", "X-Forwarded-For: 192.0.2.7\r\n"))
	require.Equal(t, 401, status(t, conn))
}
