package api_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Any value of any forwarding header, even an empty one, in any capitalization,
// ends the exemption of callers on the same machine.
func TestForwardedRequestsAreNotLocal(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for _, header := range []string{
		"X-Forwarded-For: 192.0.2.7", "X-Forwarded-For:", "X-Forwarded-For:\r\nX-Forwarded-For: 192.0.2.7", "x-forwarded-for: \t ",
		"X_Forwarded_For: 192.0.2.7", "X-Forwarded-Host: a", "X-Forwarded-Proto: https", "X-Forwarded-Port: 443", "X-Forwarded-Server:",
		"X-Forwarded-Prefix: /a", "X-Forwarded-Client-Cert: a", "X-Forwarded-Anything: a", "X-Forwarded: a", "Forwarded: for=192.0.2.7", "Forwarded:",
		"Forwarded-For: a", "Via: 1.1 proxy", "Via:", "X-Real-Ip: 192.0.2.7", "X-REAL-IP:", "X-Client-Ip: a", "X-Cluster-Client-Ip: a", "True-Client-Ip: a",
		"CF-Connecting-Ip: a", "CF-Ray: a", "CDN-Loop: a", "X-Envoy-External-Address: a", "X-Envoy-Internal: true", "X-Original-Forwarded-For: a",
		"X-Original-Host: a", "X-Original-Url: /", "Fastly-Client-Ip: a", "Fly-Client-Ip: a", "X-Azure-ClientIp: a", "X-Appengine-User-Ip: a",
		"X-Remote-Addr: a", "Client-Ip: a", "Proxy-Client-Ip: a", "WL-Proxy-Client-Ip: a", "Do-Connecting-Ip: a", "X-Proxy-Id: a", "X-Arr-Ssl: a",
	} {
		body := one("Fine.")
		conn := s.dial(t, fmt.Sprintf("POST /v1/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n\r\n%s", len(body), header, body))
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, header)
		require.Equal(t, 401, got.StatusCode, header)
		require.NoError(t, got.Body.Close())
	}
	for _, header := range []string{"X-Request-Id", "X-Request-Timeout", "Traceparent", "Tracestate", "X-B3-Traceid", "User-Agent", "Origin-Agent", "X-Custom"} {
		got := s.do(t, "POST", "/v1/score", strings.NewReader(one("Fine.")), header, "5")
		require.Equal(t, 200, got.StatusCode, "%s: %s", header, got.body)
	}
}
