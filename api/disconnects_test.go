package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api"
)

// dial sends raw bytes, to act as a misbehaving client.
func (s *service) dial(t *testing.T, request string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	return conn.(*net.TCPConn)
}

func rawPost(length int, body string, headers ...string) string {
	return fmt.Sprintf("POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		length, strings.Join(headers, ""), body)
}

func status(t *testing.T, conn net.Conn) int {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode
}

func TestClientDisconnectsDuringBody(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	require.NoError(t, s.dial(t, rawPost(1000, `{"responses":[{"resp`)).Close())
	line := s.log.request(t)
	require.EqualValues(t, 499, line["status"], line)
	require.Equal(t, "/v1/score", line["route"])
	require.EqualValues(t, 20, line["bytes_in"])
	require.Equal(t, "info", line["level"])
}

// A client that closes only its sending side still reads the error.
func TestClientEndsBodyEarly(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	conn := s.dial(t, rawPost(1000, `{"responses":[{"resp`))
	require.NoError(t, conn.CloseWrite())
	require.Equal(t, 499, status(t, conn))
}

func TestClientDisconnectsDuringInference(t *testing.T) {
	for name, headers := range map[string]string{"": "", "with a timeout": "X-Request-Timeout: 20\r\n"} {
		t.Run(name, func(t *testing.T) {
			m := gated()
			s := start(t, scorerOf(t, m, 0))
			body := one("fine")
			conn := s.dial(t, rawPost(len(body), body, headers))
			await(t, m.entered, "the batch")
			require.NoError(t, conn.Close())
			line := s.log.request(t) // before the model is done: the client has disconnected
			require.EqualValues(t, 499, line["status"], line)
			require.EqualValues(t, 1, line["responses"])
			close(m.release)
		})
	}
}

func TestClientOfGzipDisconnectsDuringInference(t *testing.T) {
	m := gated()
	s := start(t, scorerOf(t, m, 0))
	body := string(gzipped(t, []byte(one("fine"))))
	conn := s.dial(t, rawPost(len(body), body, "Content-Encoding: gzip\r\n"))
	await(t, m.entered, "the batch")
	require.NoError(t, conn.Close())
	require.EqualValues(t, 499, s.log.request(t)["status"])
	close(m.release)
}

func TestStalledBodyTimesOut(t *testing.T) {
	for name, headers := range map[string]string{"plain": "", "gzip": "Content-Encoding: gzip\r\n"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, scorerOf(t, &model{}, 0))
			conn := s.dial(t, rawPost(1000, "\x1f\x8b\x08", headers, "X-Request-Timeout: 50ms\r\n"))
			require.Equal(t, 504, status(t, conn))
			line := s.log.request(t)
			require.EqualValues(t, 504, line["status"])
			require.Contains(t, line["error"], "did not arrive")
		})
	}
}

func TestServiceLimitEndsAStalledBody(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.RequestTimeout = 50 * time.Millisecond }))
	require.Equal(t, 504, status(t, s.dial(t, rawPost(1000, "{", "X-Request-Timeout: 1h\r\n"))))
}

func TestSlowHeadersAreCutOff(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.HeaderTimeout = 50 * time.Millisecond }))
	conn := s.dial(t, "POST /v1/score HTTP/1.1\r\nHost: as")
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestDeadlineDuringInference(t *testing.T) {
	m := gated()
	s := start(t, scorerOf(t, m, 0))
	responses := make(chan answer, 1)
	go func() { responses <- s.score(t, one("fine"), "X-Request-Timeout", "0.1") }()
	await(t, m.entered, "the batch")
	got := await(t, responses, "the response")
	require.Equal(t, 504, got.StatusCode)
	code, _, message := got.failure(t)
	require.Equal(t, "deadline_exceeded", code)
	require.Contains(t, message, "X-Request-Timeout")
	close(m.release)
}
