package livetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/live"
)

const opening = `{"open":{"id":"r1"}}`

// half is a text of which one utterance is complete.
const half = "The weather is fine today. This one is #"

func textMessage(text string) string {
	data, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		panic(err) // a string
	}
	return string(data)
}

// begin opens a session and sends half a text, whose first utterance is scored.
func begin(t *testing.T, c session) {
	t.Helper()
	require.NoError(t, c.send(opening))
	require.NoError(t, c.send(textMessage(half)))
	e, err := c.receive()
	require.NoError(t, err)
	require.NotNil(t, e.Utterance, "%+v", e.Error)
}

// A connection that is lost in the middle of a response does not end the text: the half
// that arrived is neither scored as a response, nor counted, nor stored.
func TestLostConnection(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		if over.queue { // NATS does not say who disconnected
			s := start(t, over, settings{live: live.Limits{Idle: 50 * time.Millisecond}})
			c := over.open(t, s)
			_, _ = c.send(opening), c.send(textMessage(half)) // fails on a machine so slow that the session is idle before
			c.cut()
			s.ended(t, "idle", 1)
			require.Zero(t, s.scored.Load())
			return
		}
		s := start(t, over, settings{})
		c := over.open(t, s)
		begin(t, c)
		c.cut()
		s.ended(t, "abandoned", 1)
		require.Zero(t, s.scored.Load())
	})
}

// Only the message close ends a text over a WebSocket, not the close frame of a client
// that leaves.
func TestCloseFrame(t *testing.T) {
	over := transport{open: openSocket}
	s := start(t, over, settings{})
	for i, status := range []websocket.StatusCode{websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd} {
		c := over.open(t, s).(*socketSession)
		begin(t, c)
		require.NoError(t, c.conn.Close(status, ""))
		s.ended(t, "abandoned", i+1)
	}
	require.Zero(t, s.scored.Load())
}

// A body of HTTP/1.1 may be cut between its chunks, inside one, or before its length; the
// client may also only stop to send.
func TestUnfinishedBody(t *testing.T) {
	s := start(t, transport{}, settings{})
	body := opening + "\n" + textMessage(half) + "\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	n := 0
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + chunk
	for name, request := range map[string]struct{ first, then string }{
		"between chunks":   {chunked, ""},
		"in a size":        {chunked, "1"},
		"in a chunk":       {chunked, "40\r\n" + textMessage("More. ") + "\n"},
		"in the trailers":  {chunked, "0\r\n"},
		"before the bytes": {fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+1, body), ""},
	} {
		for _, leave := range []struct {
			name string
			do   func(*net.TCPConn) error
		}{{"closed", (*net.TCPConn).Close}, {"half closed", (*net.TCPConn).CloseWrite}} {
			t.Run(name+"/"+leave.name, func(t *testing.T) {
				n++
				var dial net.Dialer
				conn, err := dial.DialContext(t.Context(), "tcp", s.http)
				require.NoError(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, "POST /v1/live HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"+request.first)
				require.NoError(t, err)
				_, err = bufio.NewReader(conn).ReadString('{') // an event
				require.NoError(t, err)
				_, err = io.WriteString(conn, request.then)
				require.NoError(t, err)
				require.NoError(t, leave.do(conn.(*net.TCPConn)))
				s.ended(t, "abandoned", n)
			})
		}
	}
	require.Zero(t, s.scored.Load())
}

// A client of HTTP/2 or gRPC may reset one stream of its connection.
func TestStreamIsReset(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		if over.queue {
			t.Skip("NATS has no streams")
		}
		s := start(t, over, settings{})
		c := over.open(t, s)
		reset, ok := c.(interface{ reset() })
		if !ok {
			t.Skip("this transport has no streams")
		}
		begin(t, c)
		reset.reset()
		s.ended(t, "abandoned", 1)
		require.Zero(t, s.scored.Load())
	})
}
