package admin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
)

// answering is a service that answers as h does.
func answering(t *testing.T, h http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"error":{"code":"`+code+`","message":"because"}}`)
}

func TestCommandsPrintTheResponseOfTheService(t *testing.T) {
	var asked []string
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		_, _ = io.WriteString(w, `{"b":1,"a":[{"unknown":2}]}`)
	})
	for _, tc := range []struct {
		asked string
		args  []string
	}{
		{"GET /v1/models", []string{"models", "list"}},
		{"GET /v1/models/a%2Fb", []string{"models", "show", "a/b"}},
		{`POST /v1/models/v1/promote {"reason":"why"}`, []string{"models", "promote", "v1", "--reason", "why"}},
		{"POST /v1/models/rollback {}", []string{"models", "rollback"}},
		{"GET /v1/training", []string{"training", "status"}},
		{`POST /v1/training {"reason":"new","refreeze":true}`, []string{"training", "start", "--reason", "new", "--refreeze"}},
		{`POST /v1/training/stop {"id":"t1","reason":"why"}`, []string{"training", "stop", "t1", "--reason", "why"}},
		{"POST /v1/training/stop {}", []string{"training", "stop"}},
		{"GET /v1/feedback", []string{"feedback", "show"}},
		{"GET /v1/feedback/candidates?n=3", []string{"feedback", "candidates", "-n", "3"}},
		{"GET /v1/feedback/r%2F1/labels", []string{"feedback", "show", "r/1"}},
		{"DELETE /v1/feedback/r%2F1/labels?rater=ann+%26", []string{"feedback", "withdraw", "r/1", "--rater", "ann &"}},
		{"DELETE /v1/feedback/r%2F1", []string{"feedback", "erase", "r/1"}},
	} {
		asked = nil
		stdout, stderr, code := assay(t, "", append(tc.args, "--url", url+"/")...)
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Equal(t, []string{tc.asked}, asked)
		require.Equal(t, "{\n\t\"b\": 1,\n\t\"a\": [\n\t\t{\n\t\t\t\"unknown\": 2\n\t\t}\n\t]\n}\n", stdout)
	}
}

func TestTokenOfACommand(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "token"), []byte("the private token\n"), 0o600))
	var sent string
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "{}")
	})
	_, stderr, code := assay(t, "", "models", "list", "--url", url, "--data-dir", data)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, "Bearer the private token", sent)
	_, _, code = assay(t, "", "models", "list", "--url", url, "--data-dir", data, "--token", "given-given-given-given")
	require.Equal(t, cli.ExitDone, code)
	require.Equal(t, "Bearer given-given-given-given", sent)
}

func TestErrorsDetermineRetriesAndTheExitCode(t *testing.T) {
	for name, tc := range map[string]struct {
		args     []string
		status   int
		code     string
		attempts int
		exit     int
	}{
		"unknown":        {[]string{"models", "show", "v"}, 404, "not_found", 1, cli.ExitUsage},
		"broken":         {[]string{"models", "list"}, 500, "internal", 1, cli.ExitFailed},
		"busy":           {[]string{"models", "list"}, 503, "overloaded", 2, cli.ExitFailed},
		"maybe done":     {[]string{"models", "rollback"}, 503, "unavailable", 1, cli.ExitFailed},
		"certainly not":  {[]string{"training", "start"}, 503, "not_ready", 2, cli.ExitFailed},
		"not a response": {[]string{"models", "list"}, 200, "", 1, cli.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				attempts++
				if tc.status == http.StatusOK {
					_, _ = io.WriteString(w, "<html>")
					return
				}
				refuse(w, tc.status, tc.code)
			})
			stdout, stderr, code := assay(t, "", append(tc.args, "--url", url, "--retries", "1")...)
			require.Equal(t, tc.exit, code, stderr)
			require.Empty(t, stdout)
			require.Equal(t, tc.attempts, attempts)
			if tc.status != http.StatusOK {
				require.Contains(t, stderr, "because")
			}
		})
	}
	_, stderr, code := assay(t, "", "models", "list", "--url", "nowhere")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--url")
}

func TestFeedbackSendCountsAndNamesLines(t *testing.T) {
	var bodies []string
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if len(bodies) == 2 {
			_, _ = io.WriteString(w, `{"accepted":0,"duplicates":0,"rejected":[{"index":0,"id":"c","code":"no_text","message":"no text"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"accepted":1,"duplicates":1,"rejected":[]}`)
	})
	in := "{\"id\":\"a\"}\n\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n"
	stdout, stderr, code := assay(t, in, "feedback", "send", "--batch", "2", "--url", url, "--log-format", "json")
	require.Equal(t, cli.ExitUsage, code)
	require.Equal(t, []string{"{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "{\"id\":\"c\"}\n"}, bodies)
	require.Contains(t, stderr, `"line":4`)
	require.JSONEq(t, `{"accepted":1,"duplicates":1,"rejected":[{"index":3,"id":"c","code":"no_text","message":"no text"}]}`, stdout)
	bodies = nil
	_, _, code = assay(t, in, "feedback", "send", "--batch", "2", "--url", url, "--skip-bad")
	require.Equal(t, cli.ExitDone, code)
}
