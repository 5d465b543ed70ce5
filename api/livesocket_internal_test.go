package api

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"assay/api/internal/exchange"
)

// oneConn is a listener with one connection.
type oneConn struct {
	conns chan net.Conn
	net.Listener
}

func (l oneConn) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func (oneConn) Close() error { return nil }

// socketPair returns both ends of a WebSocket in memory.
func socketPair(t *testing.T) (service *liveConn, client *websocket.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	listener := oneConn{conns: make(chan net.Conn, 1)}
	listener.conns <- ours
	accepted := make(chan *websocket.Conn, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // one connection
		conn, err := websocket.Accept(w, r, nil)
		if err == nil {
			accepted <- conn
		}
	})}
	serving := make(chan struct{})
	go func() { defer close(serving); _ = server.Serve(listener) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return theirs, nil }}
	client, _, err := websocket.Dial(t.Context(), "ws://service", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}}) //nolint:bodyclose // hijacked
	require.NoError(t, err)
	settings := &exchange.Settings{HeaderTimeout: time.Hour}
	settings.SetLimits(exchange.Limits{MaxBody: 1 << 20})
	service = &liveConn{ctx: t.Context(), x: &exchange.Exchange{Settings: settings}, allowed: func() error { return nil }, conn: <-accepted}
	t.Cleanup(func() {
		_, _ = client.CloseNow(), service.conn.CloseNow()
		close(listener.conns)
		<-serving
	})
	return service, client
}

// A client is pinged only while its messages are read: until then nobody sees its pong.
func TestLiveSocketIsBehindItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, client := socketPair(t)
		go func() { _, _, _ = client.Read(t.Context()) }() // responds to pings
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		service.ctx = ctx
		done := make(chan struct{})
		go func() { defer close(done); service.ping() }()
		for range 3 {
			go func() { _ = client.Write(t.Context(), websocket.MessageText, []byte(`{"text":"a"}`)) }()
			m, err := service.Receive()
			require.NoError(t, err)
			require.Equal(t, "a", *m.Text)
			<-time.After(5*time.Minute + heartbeatInterval/3) // the scorer is busy, and no heartbeat is due when it reads
		}
		cancel()
		<-done
	})
}

// A client that does not respond while its messages are read is disconnected.
func TestLiveSocketIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, _ := socketPair(t)
		go service.ping()
		start := time.Now()
		_, err := service.Receive()
		require.ErrorIs(t, err, context.Canceled)
		require.LessOrEqual(t, time.Since(start), heartbeatInterval+eventSendTimeout)
	})
}
