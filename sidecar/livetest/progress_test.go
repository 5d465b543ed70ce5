package livetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A client that asks for progress hears that the session is open, and that text is scored
// once the events of its utterances have arrived, whether it completes one or not. The
// result is the same. gRPC does not have it, and over NATS each message has a reply.
func TestProgress(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		if over.queue || over.name == "gRPC" {
			t.Skip("this transport does not report progress")
		}
		s := start(t, over, settings{})
		c := over.open(t, s)
		require.NoError(t, c.send(`{"open":{"id":"r1","progress":true}}`))
		next := func() event {
			e, err := c.receive()
			require.NoError(t, err)
			return e
		}
		require.Equal(t, 0, next().Progress.Bytes)
		require.NoError(t, c.send(textMessage("Größe")))
		require.Equal(t, len("Größe"), next().Progress.Bytes)
		require.NoError(t, c.send(textMessage(" counts. And")))
		require.Equal(t, "Größe counts.", next().Utterance.Text)
		require.Equal(t, len("Größe counts. And"), next().Progress.Bytes)
		require.NoError(t, c.end())
		_, got, err := finish(c)
		require.NoError(t, err)
		require.Equal(t, s.score(t, "r1", "Größe counts. And"), got)
	})
}
