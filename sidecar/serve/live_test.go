package serve_test

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/sidecar/serve"
)

// A live session has the limits of the service, and a shutdown ends it.
func TestShutdownEndsLiveSessions(t *testing.T) {
	cfg := embeddedConfig(t)
	cfg.Live = live.Limits{Sessions: 1}
	s, err := serve.New(cfg, zerolog.Nop())
	require.NoError(t, err)
	_, err = s.Live().Open(t.Context(), rewardmodel.LiveRequest{})
	require.ErrorIs(t, err, rewardmodel.ErrNotReady)
	s.Start()
	require.NoError(t, s.Ready(t.Context()))
	session, err := s.Live().Open(t.Context(), rewardmodel.LiveRequest{})
	require.NoError(t, err)
	_, err = s.Live().Open(t.Context(), rewardmodel.LiveRequest{})
	require.ErrorIs(t, err, rewardmodel.ErrOverloaded)
	events, err := session.Feed(t.Context(), "It rained all day. <think>")
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.NoError(t, s.Shutdown())
	<-session.Done()
	require.ErrorIs(t, session.Cause(), rewardmodel.ErrClosed)
}
