package livetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/internal/errorcode"
	"assay/rewardmodel/live"
)

const (
	maxSessions = 12
	maxText     = 32 << 10 // bytes of a session
	maxMessage  = 8 << 10  // bytes
	allMemory   = 64 << 20 // bytes
)

// hostile is a client that does what it should not. It fails the test if the service does
// not respond as it should.
type hostile struct {
	name string
	do   func(t *testing.T, over transport, s *service)
}

// attacks are the hostile clients.
var attacks = []hostile{
	{"never a sentence end", neverEnds},
	{"a character at a time", dribbles},
	{"never reads", neverReads},
	{"messages that are too large", largeMessages},
	{"characters cut in two", cutCharacters},
	{"the same id again", sameID},
	{"leaves in the middle", leaves},
	{"too many sessions", tooMany},
}

// Hostile clients get an error event, honest ones alongside get the right results, and in
// the end nothing is left of any session.
func TestHostileClients(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		s := start(t, over, settings{
			live: live.Limits{Sessions: maxSessions, Bytes: maxText}, memory: allMemory,
			change: func(c *api.Config) { c.MaxBody = maxMessage },
		})
		alongside(t, over, s, func() {
			for _, attack := range attacks {
				t.Run(attack.name, func(t *testing.T) { attack.do(t, over, s) })
			}
		})
		if over.queue {
			s.sessions.Close() // those whose clients left wait for Limits.Idle
		}
		s.empty(t)
	})
}

// failsWith reads until the end of a session, which must be an error with the code.
func failsWith(t *testing.T, c session, code errorcode.Code) {
	t.Helper()
	_, _, err := finish(c)
	var f *failure
	require.ErrorAs(t, err, &f)
	require.True(t, f.is(code), "%v instead of %s", f, code)
}

// open opens a session as soon as there is room for it.
func open(t *testing.T, over transport, s *service, opening string) session {
	t.Helper()
	for start := time.Now(); time.Since(start) < deadline; {
		c := over.open(t, s)
		if c.send(opening) == nil && c.send(textMessage("Yes. No")) == nil {
			e, err := c.receive()
			if err == nil && e.Utterance != nil {
				return c
			}
		}
		c.cut()
	}
	t.Fatal("no session could be opened")
	return nil
}

func neverEnds(t *testing.T, over transport, s *service) {
	c := open(t, over, s, opening)
	piece := textMessage(strings.Repeat("x", maxMessage/2))
	for range 2 * maxText / (maxMessage / 2) {
		if c.send(piece) != nil {
			break
		}
	}
	failsWith(t, c, errorcode.TooLarge)
}

func dribbles(t *testing.T, over transport, s *service) {
	var c session
	for c == nil {
		c = over.open(t, s)
		if err := write(c, "slow", strings.Split(prose, "")); err != nil {
			c.cut() // there are too many sessions
			c = nil
		}
	}
	events, got, err := finish(c)
	require.NoError(t, err)
	require.NoError(t, check(events, got, s.score(t, "slow", prose)))
}

// neverReads reads only after its text is too long: what it has missed is there, the
// error last.
func neverReads(t *testing.T, over transport, s *service) {
	c := open(t, over, s, opening)
	const sentence = "This is one more sentence. "
	for range 2 * maxText / len(sentence) / 10 {
		if c.send(textMessage(strings.Repeat(sentence, 10))) != nil {
			break
		}
	}
	failsWith(t, c, errorcode.TooLarge)
}

func largeMessages(t *testing.T, over transport, s *service) {
	size := maxMessage + 1
	if over.queue {
		size = maxText + 1 // the server limits messages
	}
	c := open(t, over, s, opening)
	_ = c.send(textMessage(strings.Repeat("Large. ", size/7)))
	failsWith(t, c, errorcode.TooLarge)
	if over.queue {
		return
	}
	c = over.open(t, s)
	_ = c.send(fmt.Sprintf(`{"open":{"prompt":%q}}`, strings.Repeat("x", size)))
	failsWith(t, c, errorcode.TooLarge)
}

// cutCharacters cuts a text at every byte. A piece of a character is an error, and does
// not become another character.
func cutCharacters(t *testing.T, over transport, s *service) {
	text := "aé€🙂b"
	if testing.Short() {
		text = "é🙂"
	}
	for cut := range len(text) + 1 {
		c := open(t, over, s, opening)
		whole := strings.ToValidUTF8(text[:cut], "") == text[:cut]
		if sent := c.sendBytes(text[:cut]); whole {
			require.NoError(t, sent)
			require.NoError(t, c.sendBytes(text[cut:]))
			require.NoError(t, c.end())
			_, got, err := finish(c)
			require.NoError(t, err)
			require.Equal(t, s.score(t, "r1", "Yes. No"+text), got)
			continue
		}
		failsWith(t, c, errorcode.Invalid)
	}
}

// sameID opens sessions with one id, at the same time and again after a lost connection.
func sameID(t *testing.T, over transport, s *service) {
	first := open(t, over, s, opening)
	second := open(t, over, s, opening)
	require.NoError(t, first.send(textMessage(" #")))
	second.cut()
	third := open(t, over, s, opening)
	require.NoError(t, third.send(textMessage(" ## more")))
	for text, c := range map[string]session{"Yes. No #": first, "Yes. No ## more": third} {
		require.NoError(t, c.end())
		_, got, err := finish(c)
		require.NoError(t, err)
		require.Equal(t, s.score(t, "r1", text), got)
	}
}

func leaves(t *testing.T, over transport, s *service) {
	if over.queue {
		t.Skip("TestLostConnection has this")
	}
	for range 3 {
		open(t, over, s, opening).cut()
	}
}

// tooMany opens sessions until one is refused. Then it closes them, and there is room.
func tooMany(t *testing.T, over transport, s *service) {
	var opened []session
	refused := false
	for range maxSessions + 1 {
		c := over.open(t, s)
		_ = c.send(opening)
		_ = c.send(textMessage("Yes. No"))
		e, err := c.receive()
		require.NoError(t, err)
		if e.Error != nil {
			f := &failure{e.Error.Code, e.Error.Message}
			require.True(t, f.is(errorcode.Overloaded), "%v", f)
			refused = true
			break
		}
		opened = append(opened, c)
	}
	require.True(t, refused)
	for _, c := range opened {
		require.NoError(t, c.end())
		_, _, err := finish(c)
		require.NoError(t, err)
	}
	c := open(t, over, s, opening)
	require.NoError(t, c.end())
	_, _, err := finish(c)
	require.NoError(t, err)
}

// A session that its client no longer feeds ends with an error.
func TestIdleSessions(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		s := start(t, over, settings{live: live.Limits{Idle: 20 * time.Millisecond}})
		c := over.open(t, s)
		require.NoError(t, c.send(opening))
		if over.queue {
			s.ended(t, "idle", 1) // the next message gets the reason
		}
		failsWith(t, c, errorcode.Idle)
	})
}

// A client that does not complete its first message gets an error. The same limit holds
// for its connection: on a machine so slow that this is not ready in time, it is doubled.
func TestUnfinishedOpening(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		if over.queue {
			t.Skip("messages of NATS arrive whole")
		}
		for limit := 100 * time.Millisecond; ; limit *= 2 {
			s := start(t, over, settings{change: func(c *api.Config) { c.HeaderTimeout = limit }})
			c := over.open(t, s)
			if h, ok := c.(*httpSession); ok {
				_, _ = h.to.Write([]byte(opening[:5])) // fails without a connection
			}
			_, _, err := finish(c)
			var f *failure
			if errors.As(err, &f) || websocket.CloseStatus(err) > 0 {
				return
			}
			require.Less(t, limit, 5*time.Second, "%v", err)
		}
	})
}

// A client that sends much and reads nothing until its session has failed finds events
// without a gap, and the error last unless its connection was closed meanwhile: it reads too
// late for that over HTTP/1.1 and WebSockets, and gRPC ends an unread reply with the connection.
func TestEventsAreNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the buffers of the connection")
	}
	onEach(t, func(t *testing.T, over transport) {
		s := start(t, over, settings{memory: 24 << 20, change: func(c *api.Config) { c.RequestTimeout = 5 * time.Second }})
		alongside(t, over, s, func() {
			c := open(t, over, s, opening)
			piece := textMessage(strings.Repeat("This is one more sentence. ", 100))
			for c.send(piece) == nil { //nolint:revive // until the memory of requests or the text is too large
			}
			events, _, err := finish(c)
			require.Error(t, err)
			var f *failure
			switch {
			case errors.As(err, &f):
				require.True(t, f.is(errorcode.TooLarge) || f.is(errorcode.Overloaded) || over.name == "gRPC" && f.code == "Unavailable", "%v", f)
			default:
				require.Contains(t, []string{"HTTP1", "WebSocket", "gRPC"}, over.name, "%v", err)
			}
			for i, e := range events {
				require.Equal(t, i+1, e.Utterance.Index)
			}
		})
	})
}
