package versions

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

// A live session keeps its version, also after the promotion of another one.
func TestLiveKeepsItsVersion(t *testing.T) {
	s := newFakeLoader(t)
	v := newSet(t, Config{MaxLoaded: 2}, s)
	session, release, err := v.Live(t.Context(), rewardmodel.LiveRequest{})
	require.NoError(t, err)
	first := v.Current().Version
	for _, version := range []string{"v7", "v8"} {
		require.NoError(t, v.Promote(t.Context(), version))
	}
	_, err = session.Feed(t.Context(), "It rained. <think>")
	require.NoError(t, err)
	_, answer, err := session.Close(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, answer.Model.Version)
	release()
	release()

	for _, model := range []string{"v9", "assay", "v7"} {
		session, release, err := v.Live(t.Context(), rewardmodel.LiveRequest{Model: model})
		require.NoError(t, err)
		_, answer, err := session.Close(t.Context())
		require.NoError(t, err)
		if model == "assay" {
			model = "v8"
		}
		require.Equal(t, model, answer.Model.Version)
		release()
	}
	for _, request := range []rewardmodel.LiveRequest{{Model: "unknown"}, {Provisional: 1}, {Model: "v9", Options: rewardmodel.Options{Reward: "x"}}} {
		_, _, err := v.Live(t.Context(), request)
		var input *rewardmodel.InputError
		require.True(t, errors.As(err, &input), "%+v: %v", request, err)
	}
	require.PanicsWithValue(t, panics, func() {
		_, _, err := v.Live(t.Context(), rewardmodel.LiveRequest{Prompt: panics})
		t.Error(err)
	})
	for _, status := range v.List() {
		require.Zero(t, status.Uses, status.Version)
	}
}
