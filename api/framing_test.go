package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel/retrain"
)

// Where a message ends must have one reading, or a proxy in front of the service could
// be made to take the rest of a body for the next request of another client.
func TestRequestSmuggling(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const head = "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, request := range map[string]string{
		"two lengths":            head + "Content-Length: 2\r\nContent-Length: 50\r\n\r\n{}" + smuggled,
		"length and chunks":      head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"chunks twice":           head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled,
		"unknown encoding":       head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"space before the colon": head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"signed length":          head + "Content-Length: +2\r\n\r\n{}" + smuggled,
		"bad chunk size":         head + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + smuggled,
		"line feed in a name":    "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nX\n: a\r\nContent-Length: 2\r\n\r\n{}" + smuggled,
		"two hosts":              "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}" + smuggled,
	} {
		t.Run(name, func(t *testing.T) {
			reader := bufio.NewReader(s.dial(t, request))
			first, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, first.Body)
			require.NoError(t, err)
			require.NoError(t, first.Body.Close())
			require.Contains(t, []int{400, 501}, first.StatusCode)
			_, err = http.ReadResponse(reader, nil) //nolint:bodyclose // there is none
			require.Error(t, err, "the connection is closed, and nothing of the rest is served")
		})
	}
}

func TestHeaderFlood(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for name, headers := range map[string]string{
		"one long":  "X-A: " + strings.Repeat("a", 128<<10) + "\r\n",
		"many":      strings.Repeat("X-A: a\r\n", 20<<10),
		"long path": "",
	} {
		t.Run(name, func(t *testing.T) {
			path := "/livez"
			if headers == "" {
				path += "?" + strings.Repeat("a", 128<<10)
			}
			conn := s.dial(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, headers))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, 431, response.StatusCode)
			require.NoError(t, response.Body.Close())
		})
	}
}

// A name in a path reaches the registry as one name, whatever its characters: it is
// neither a path of the file system nor another route.
func TestPathTricks(t *testing.T) {
	f, s := withFleet(t)
	f.err = retrain.ErrNoModel
	for path, version := range map[string]string{
		"/v1/models/..%2f..%2fetc%2fpasswd/promote": "../../etc/passwd",
		"/v1/models/%2e%2e/promote":                 "..",
		"/v1/models/%00/promote":                    "\x00",
		"/v1/models/a%3Fb%23c/promote":              "a?b#c",
		"/v1/models/%252e%252e/promote":             "%2e%2e",
	} {
		f.calls = nil
		got := s.do(t, "POST", path, nil)
		require.Equal(t, 404, got.StatusCode, "%s: %s", path, got.body)
		require.Len(t, f.calls, 1, path)
		require.True(t, strings.HasPrefix(f.calls[0], "promote "+version+" by "), f.calls[0])
	}
	for _, path := range []string{"/v1/../v1/models/v7/promote", "//v1/models/v7/promote", "/v1/models/v7/promote/", "/v1/models/v7/promote/../rollback", "/V1/models/v7/promote"} {
		f.calls = nil
		got := s.do(t, "POST", path, nil)
		require.Equal(t, 404, got.StatusCode, path)
		require.Empty(t, f.calls, "%s is no route", path)
	}
}

// A page of another origin whose host name resolves to this machine reads nothing, not
// even what needs no token. Probes reveal nothing.
func TestReboundNamesReadNothing(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.TrustedOrigins = []string{"http://assay.internal:8080"} }))
	status := func(path, host string, headers ...string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+path, nil)
		require.NoError(t, err)
		r.Host = host
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := s.client.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for _, path := range []string{"/", "/metrics", "/openapi.json", "/v1/models", "/console/session", "/v2", "/none"} {
		require.Equal(t, 403, status(path, "evil.example:8080"), path)
	}
	for _, path := range []string{"/", "/metrics", "/v1/models"} {
		for _, host := range []string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "192.0.2.1"} {
			require.Equal(t, 200, status(path, host), "%s of %s", path, host)
		}
	}
	require.Equal(t, 200, status("/livez", "evil.example"))
	require.Equal(t, 200, status("/metrics", "assay.internal:8080"), "a trusted origin")
	require.Equal(t, 403, status("/metrics", "evil.example", "X-Forwarded-For", "192.0.2.7"), "the page may set it")
	require.Equal(t, 403, status("/metrics", "evil.example", "Authorization", "x"), "the page may set it")
}
