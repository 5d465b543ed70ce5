package api_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/api/access"
	"assay/rewardmodel/live"
)

// dialLive returns the status of the handshake, and the connection if it is 101.
func dialLive(t *testing.T, s *service, headers ...string) (conn *websocket.Conn, status int) {
	t.Helper()
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	conn, response, err := websocket.Dial(t.Context(), "ws://"+s.addr+"/v1/live", &websocket.DialOptions{HTTPHeader: header})
	if conn != nil {
		conn.SetReadLimit(-1)
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	require.NotNil(t, response, "%v", err)
	if response.Body != nil {
		require.NoError(t, response.Body.Close())
	}
	return conn, response.StatusCode
}

func openSocket(t *testing.T, s *service, headers ...string) *websocket.Conn {
	t.Helper()
	conn, status := dialLive(t, s, headers...)
	require.Equal(t, 101, status)
	return conn
}

func write(t *testing.T, conn *websocket.Conn, messages ...string) {
	t.Helper()
	for _, m := range messages {
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(m)))
	}
}

// readAll reads until the service closes the socket.
func readAll(t *testing.T, conn *websocket.Conn) (messages []liveMessage, status websocket.StatusCode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			return messages, websocket.CloseStatus(err)
		}
		require.Equal(t, websocket.MessageText, kind)
		messages = append(messages, parseLive(t, string(message)))
	}
}

func TestLiveSocket(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	for cut := range liveText {
		conn := openSocket(t, s)
		write(t, conn, `{"open":{"id":"r1"}}`, textMessage(liveText[:cut]), textMessage(liveText[cut:]), `{"close":{}}`)
		messages, status := readAll(t, conn)
		requireScored(t, messages)
		require.Equal(t, websocket.StatusNormalClosure, status)
	}
}

func TestLiveSocketClosesWithTheReason(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{}, config(func(c *api.Config) { c.MaxBody = 1000 }))
	hasty := startLive(t, &model{}, live.Limits{}, config(func(c *api.Config) { c.HeaderTimeout = time.Second }))
	failing := startLive(t, &model{err: net.ErrClosed}, live.Limits{})
	for _, test := range []struct {
		name     string
		at       *service
		messages []string
		code     string
		status   websocket.StatusCode
	}{
		{"no open", s, []string{`{"text":"a"}`}, "invalid", websocket.StatusPolicyViolation},
		{"no message", hasty, nil, "", websocket.StatusInternalError},
		{"open twice", s, []string{`{"open":{}}`, `{"open":{}}`}, "invalid", websocket.StatusPolicyViolation},
		{"no JSON", s, []string{`{"open":{}}`, `text`}, "invalid", websocket.StatusPolicyViolation},
		{"long", s, []string{`{"open":{}}`, textMessage(strings.Repeat("x", 1000))}, "too_large", websocket.StatusMessageTooBig},
		{"unknown model", s, []string{`{"open":{"model":"v9"}}`}, "not_found", websocket.StatusPolicyViolation},
		{"model", failing, []string{`{"open":{}}`, textMessage(liveText), `{"close":{}}`}, "model_failed", websocket.StatusInternalError},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := openSocket(t, test.at)
			write(t, conn, test.messages...)
			messages, status := readAll(t, conn)
			require.Equal(t, test.status, status)
			if test.code != "" {
				require.Equal(t, test.code, messages[len(messages)-1].Error.Code)
			}
		})
	}
	t.Run("binary", func(t *testing.T) {
		conn := openSocket(t, s)
		require.NoError(t, conn.Write(t.Context(), websocket.MessageBinary, []byte(`{"open":{}}`)))
		_, status := readAll(t, conn)
		require.Equal(t, websocket.StatusPolicyViolation, status)
	})
	t.Run("invalid UTF-8", func(t *testing.T) {
		conn := openSocket(t, s)
		write(t, conn, `{"open":{}}`, "{\"text\":\"\xff\"}")
		_, status := readAll(t, conn)
		require.Equal(t, websocket.StatusPolicyViolation, status)
	})
}

func TestLiveSocketHandshake(t *testing.T) {
	const trusted = "https://pages.example"
	s := startLive(t, &model{}, live.Limits{}, config(func(c *api.Config) { c.TrustedOrigins = []string{trusted} }),
		parts(func(p *api.Parts) { p.Tokens = tokens(t) }))
	opened := s.do(t, "POST", "/console/session", nil, "Authorization", "Bearer "+scoreToken)
	cookie := strings.SplitN(opened.Header.Get("Set-Cookie"), ";", 2)[0]
	require.NotEmpty(t, cookie)
	const bearer = "Bearer " + scoreToken
	for _, test := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"no token", nil, 401},
		{"unknown token", []string{"Authorization", "Bearer another-token-0123456789"}, 401},
		{"token", []string{"Authorization", bearer}, 101},
		{"token, own page", []string{"Authorization", bearer, "Origin", "http://" + s.addr}, 101},
		{"token, trusted page", []string{"Authorization", bearer, "Origin", trusted}, 101},
		{"token, other page", []string{"Authorization", bearer, "Origin", "http://evil.example"}, 403},
		{"token, opaque page", []string{"Authorization", bearer, "Origin", "null"}, 403},
		{"cookie, own page", []string{"Cookie", cookie, "Origin", "http://" + s.addr}, 101},
		{"cookie, other page", []string{"Cookie", cookie, "Origin", "http://evil.example"}, 403},
		{"cookie, other page of the site", []string{"Cookie", cookie, "Origin", "http://" + s.addr, "Sec-Fetch-Site", "same-site"}, 403},
		{"cookie without a page", []string{"Cookie", cookie}, 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, status := dialLive(t, s, test.headers...)
			require.Equal(t, test.status, status)
		})
	}
	a := s.get(t, "/v1/live", "Authorization", bearer)
	require.Equal(t, 400, a.StatusCode)
}

// A session ends once its token is removed, over HTTP and over a WebSocket.
func TestLiveTokenIsRevoked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte(scoreToken+" score\n"), 0o600))
	loaded, err := access.Load(file, zerolog.Nop())
	require.NoError(t, err)
	watching := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer close(watching); loaded.Watch(ctx) }()
	defer func() { stop(); <-watching }()
	s := startLive(t, &model{}, live.Limits{}, parts(func(p *api.Parts) { p.Tokens = loaded }))
	conn := openSocket(t, s, "Authorization", "Bearer "+scoreToken)
	write(t, conn, `{"open":{}}`)
	d := openDialog(t, clients(t)["HTTP/2.0"], s, "{\"open\":{}}\n", "Authorization", "Bearer "+scoreToken)
	require.NoError(t, os.WriteFile(file, []byte(adminToken+" admin\n"), 0o600))
	require.Eventually(t, func() bool {
		_, err := io.WriteString(d.to, textMessage(" "))
		return err != nil
	}, timeout, 10*time.Millisecond)
	require.Equal(t, "unauthorized", d.next().Error.Code)
	write(t, conn, textMessage(liveText))
	messages, status := readAll(t, conn)
	require.Equal(t, "unauthorized", messages[len(messages)-1].Error.Code)
	require.Equal(t, websocket.StatusPolicyViolation, status)
}

// A client that goes away ends its session.
func TestLiveSocketClientLeaves(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	for name, leave := range map[string]func(*websocket.Conn){
		"closes": func(c *websocket.Conn) { _ = c.Close(websocket.StatusGoingAway, "") },
		"breaks": func(c *websocket.Conn) { _ = c.CloseNow() },
	} {
		t.Run(name, func(t *testing.T) {
			conn := openSocket(t, s)
			write(t, conn, `{"open":{}}`, textMessage(liveText))
			leave(conn)
			entry := s.log.request(t)
			require.EqualValues(t, 101, entry["status"])
			require.Contains(t, entry["error"], "canceled")
		})
	}
}

// Shutdown waits for sockets, and ends those that take too long.
func TestLiveSocketsAreDrained(t *testing.T) {
	t.Run("in time", func(t *testing.T) {
		s := startLive(t, &model{}, live.Limits{})
		conn := openSocket(t, s)
		write(t, conn, `{"open":{}}`, textMessage(liveText))
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		write(t, conn, `{"close":{}}`)
		messages, _ := readAll(t, conn)
		requireScored(t, messages)
		require.NoError(t, await(t, done, "the shutdown"))
	})
	t.Run("too late", func(t *testing.T) {
		s := startLive(t, &model{}, live.Limits{})
		conn := openSocket(t, s)
		write(t, conn, `{"open":{}}`, textMessage(liveText))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, websocket.StatusCode(-1), websocket.CloseStatus(func() error { _, _, err := conn.Read(t.Context()); return err }()))
	})
}
