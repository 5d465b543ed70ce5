package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/api/access"
)

// browser sends requests to a handler as a browser with the console does: with the
// cookies that it received.
type browser struct {
	t       *testing.T
	h       http.Handler
	cookies []*http.Cookie
	csrf    string
}

func (b *browser) do(method, path string, headers ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	var body *strings.Reader
	if body = strings.NewReader(""); path == "/v1/score" {
		body = strings.NewReader(one("Fine."))
	}
	r := httptest.NewRequest(method, path, body)
	r.RemoteAddr, r.Host = far, "assay.example"
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	conforms(b.t, r, answer{w.Result(), w.Body.Bytes()})
	return w
}

type sessionAnswer struct {
	Name   string
	Scopes []string
	CSRF   string
}

func (b *browser) signIn(token string) sessionAnswer {
	b.t.Helper()
	w := b.do(http.MethodPost, "/console/session", "Authorization", "Bearer "+token)
	require.Equal(b.t, 200, w.Code, w.Body)
	b.cookies = w.Result().Cookies()
	body := sessionIn(b.t, w)
	b.csrf = body.CSRF
	return body
}

func sessionIn(t *testing.T, w *httptest.ResponseRecorder) sessionAnswer {
	t.Helper()
	var body sessionAnswer
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body)
	return body
}

func TestSession(t *testing.T) {
	h, log := handler(t, tokens(t))
	b := &browser{t: t, h: h}
	require.Equal(t, 401, b.do(http.MethodGet, "/console/session").Code)
	require.Equal(t, 401, b.do(http.MethodPost, "/console/session").Code)
	require.Equal(t, 401, b.do(http.MethodPost, "/console/session", "Authorization", "Bearer wrong-wrong-wrong").Code)

	opened := b.signIn(scoreToken)
	require.Equal(t, "trainer", opened.Name)
	require.Equal(t, []string{"score"}, opened.Scopes)
	require.NotEmpty(t, opened.CSRF)
	require.Len(t, b.cookies, 1)
	cookie := b.cookies[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.Equal(t, "/", cookie.Path)
	require.Equal(t, 12*60*60, cookie.MaxAge)
	require.False(t, cookie.Secure, "the request did not use TLS")
	require.NotEqual(t, opened.CSRF, cookie.Value)

	again := b.do(http.MethodGet, "/console/session")
	require.Equal(t, 200, again.Code)
	require.Equal(t, opened, sessionIn(t, again), "a page that is loaded again gets the same CSRF token")
	require.Equal(t, "no-store", again.Header().Get("Cache-Control"))

	for name, c := range map[string]struct {
		method, path string
		headers      []string
		status       int
	}{
		"read":                        {"GET", "/v1/models", nil, 200},
		"change without CSRF token":   {"POST", "/v1/score", nil, 403},
		"change with another token":   {"POST", "/v1/score", []string{"X-CSRF-Token", "x" + opened.CSRF}, 403},
		"change with the session id":  {"POST", "/v1/score", []string{"X-CSRF-Token", cookie.Value}, 403},
		"change":                      {"POST", "/v1/score", []string{"X-CSRF-Token", opened.CSRF}, 200},
		"another scope":               {"GET", "/v1/training", nil, 403},
		"the header wins":             {"GET", "/v1/models", []string{"Authorization", "Bearer " + feedbackToken}, 403},
		"a wrong header wins":         {"GET", "/v1/models", []string{"Authorization", "Bearer wrong-wrong-wrong"}, 401},
		"the header needs no CSRF":    {"POST", "/v1/score", []string{"Authorization", "Bearer " + adminToken}, 200},
		"another origin":              {"POST", "/v1/score", []string{"X-CSRF-Token", opened.CSRF, "Sec-Fetch-Site", "cross-site"}, 403},
		"end without the CSRF token":  {"DELETE", "/console/session", nil, 403},
		"a session opens no other":    {"POST", "/console/session", []string{"X-CSRF-Token", opened.CSRF}, 401},
		"no session for a wrong name": {"GET", "/v1/models", []string{"Cookie", "assay_session=" + opened.CSRF}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			one := &browser{t: t, h: h, cookies: b.cookies}
			if len(c.headers) > 0 && c.headers[0] == "Cookie" {
				one.cookies = nil
			}
			w := one.do(c.method, c.path, c.headers...)
			require.Equal(t, c.status, w.Code, w.Body)
			require.NotContains(t, w.Body.String(), cookie.Value)
		})
	}

	ended := b.do(http.MethodDelete, "/console/session", "X-CSRF-Token", opened.CSRF)
	require.Equal(t, 204, ended.Code)
	require.Negative(t, ended.Result().Cookies()[0].MaxAge)
	require.Equal(t, 401, b.do(http.MethodGet, "/v1/models").Code)
	for {
		select {
		case line := <-log:
			text, err := json.Marshal(line)
			require.NoError(t, err)
			for _, secret := range []string{cookie.Value, opened.CSRF, scoreToken} {
				require.NotContains(t, string(text), secret)
			}
			continue
		default:
		}
		break
	}
}

func TestSessionIsSecureOverTLS(t *testing.T) {
	h, _ := handler(t, tokens(t))
	b := &browser{t: t, h: h}
	w := b.do(http.MethodPost, "/console/session", "Authorization", "Bearer "+adminToken, "X-Forwarded-Proto", "https")
	require.True(t, w.Result().Cookies()[0].Secure)
	require.Equal(t, []string{"score", "feedback", "admin"}, sessionIn(t, w).Scopes)
}

// A session ends when its token is removed from the file, and loses the scopes that
// the token loses.
func TestSessionFollowsItsToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(adminToken + " score,feedback ann\n" + scoreToken + " score trainer\n")
	list, err := access.Load(file, zerolog.Nop())
	require.NoError(t, err)
	ctx := t.Context()
	go list.Watch(ctx)
	h, _ := handler(t, list)
	b := &browser{t: t, h: h}
	b.signIn(adminToken)
	require.Equal(t, 200, b.do(http.MethodPost, "/v1/score", "X-CSRF-Token", b.csrf).Code)

	write(adminToken + " feedback ann\n" + scoreToken + " score trainer\n")
	require.Eventually(t, func() bool { return b.do(http.MethodGet, "/v1/models").Code == 403 }, timeout, timeout/1000)
	write(scoreToken + " score trainer\n")
	require.Eventually(t, func() bool { return b.do(http.MethodGet, "/v1/models").Code == 401 }, timeout, timeout/1000)
	write(adminToken + " score ann\n" + scoreToken + " score trainer\n")
	require.Eventually(t, func() bool {
		return b.do(http.MethodGet, "/v1/models", "Authorization", "Bearer "+adminToken).Code == 200
	}, timeout, timeout/1000)
	require.Equal(t, 401, b.do(http.MethodGet, "/v1/models").Code, "it does not come back")
}

// Without tokens, the console needs no session.
func TestSessionWithoutTokens(t *testing.T) {
	h, _ := handler(t, nil, func(cfg *api.Config) { cfg.Insecure = true })
	b := &browser{t: t, h: h}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		w := b.do(method, "/console/session")
		require.Equal(t, 200, w.Code)
		require.Empty(t, w.Result().Cookies())
		require.Equal(t, sessionAnswer{"anonymous", []string{"score", "feedback", "admin"}, ""}, sessionIn(t, w))
	}
	require.Equal(t, 204, b.do(http.MethodDelete, "/console/session").Code)
	require.Equal(t, 200, b.do(http.MethodPost, "/v1/score").Code)
}

// Only clients that ask for HTML first get the console at /.
func TestConsoleAndIndexShareAPath(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for accept, html := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "application/json, text/html": false, "text/*": false,
		"text/html": true, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true, "Text/HTML;q=1, */*": true,
	} {
		got := s.get(t, "/", "Accept", accept)
		require.Equal(t, 200, got.StatusCode)
		require.Contains(t, got.Header.Values("Vary"), "Accept")
		require.Equal(t, html, strings.HasPrefix(got.Header.Get("Content-Type"), "text/html"), "Accept: %s", accept)
		require.Equal(t, html, strings.HasPrefix(string(got.body), "<!doctype html>"), "Accept: %s", accept)
	}
}

func TestConsoleAssets(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for path, kind := range map[string]string{
		"/console/assets/console.js": "text/javascript", "/console/assets/style.css": "text/css",
	} {
		got := s.get(t, path)
		require.Equal(t, 200, got.StatusCode, path)
		require.Contains(t, got.Header.Get("Content-Type"), kind)
		require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
		require.Contains(t, got.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, 304, s.get(t, path, "If-None-Match", got.Header.Get("ETag")).StatusCode)
	}
	for _, path := range []string{"/console/assets/console.html", "/console/assets/none.js", "/console/assets/../console.go", "/console/assets/..%2fconsole.html"} {
		require.Equal(t, 404, s.get(t, path).StatusCode, path)
	}
}
