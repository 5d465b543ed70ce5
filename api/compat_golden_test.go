package api_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenRequests returns the files with the golden requests, in testdata/compat/PROJECT,
// as clients of the project send them.
func goldenRequests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/compat/*/*.request")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// readGolden parses a request file: method and path, headers, an empty line, body.
func readGolden(t *testing.T, file string) (method, path, body string, headers []string) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	head, body, found := strings.Cut(string(content), "\n\n")
	require.True(t, found || body == "", file)
	lines := strings.Split(strings.TrimRight(head, "\n"), "\n")
	method, path, _ = strings.Cut(lines[0], " ")
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		headers = append(headers, name, value)
	}
	return method, path, body, headers
}

// volatile matches what differs between runs, and replaces it.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"(classify|score|modr)-[A-Z2-7]{26}"`), `"$1-ID"`},
	{regexp.MustCompile(`"created":\d+`), `"created":1800000000`},
	{regexp.MustCompile(`"id":"[0-9a-v]{20}"`), `"id":"ID"`},
	{regexp.MustCompile(`"request_id":"[A-Z2-7]{26}"`), `"request_id":"ID"`},
}

// Every golden request gets its golden response (status, media type, body), which
// conforms to openapi.json. UPDATE_GOLDEN=1 rewrites the responses.
func TestCompatGolden(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for _, file := range goldenRequests(t) {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/compat/"), ".request")
		t.Run(name, func(t *testing.T) {
			method, path, body, headers := readGolden(t, file)
			var reader io.Reader
			if method == http.MethodPost {
				reader = strings.NewReader(body)
			}
			a := s.do(t, method, path, reader, headers...)
			got := fmt.Sprintf("%d %s\n\n%s", a.StatusCode, a.Header.Get("Content-Type"), a.body)
			for _, v := range volatile {
				got = v.pattern.ReplaceAllString(got, v.with)
			}
			golden := strings.TrimSuffix(file, ".request") + ".answer"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644)) //nolint:gosec // a file of the repository
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
			if a.StatusCode == http.StatusOK && method == http.MethodPost {
				r, err := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body))
				require.NoError(t, err)
				r.Header.Set("Content-Type", "application/json")
				require.NoError(t, allowed(t, r))
			}
		})
	}
}
