package fleet

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/retrain"
	"assay/rewardmodel/versions"
)

type eventCounter int

func (n *eventCounter) Publish(context.Context, retrain.Event) error {
	*n++
	return nil
}

// A current version whose files are not stored, as after a start with another --model, is reported once, with the fix.
func TestFollowerReportsAFailureOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := versions.New(versions.Config{}, nil, nil)
		require.NoError(t, err)
		var log bytes.Buffer
		var events eventCounter
		f := &follower{
			replica: "r", versions: set, journal: &events, log: zerolog.New(&log),
			dirs: NewCheckpointDirs("v1", "given", t.TempDir()), outdated: newOutdated(nil),
		}
		ctx, stop := context.WithCancel(t.Context())
		changes := make(chan retrain.Current)
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.run(ctx, changes)
		}()
		changes <- retrain.Current{Version: "v0", Revision: 1}
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "cannot load the current model version; run assay models promote"), log.String())
		require.EqualValues(t, 1, events)
		require.InDelta(t, 1, testutil.ToFloat64(f.outdated), 0)

		changes <- retrain.Current{Version: "v0", Revision: 3}
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, 2, strings.Count(log.String(), "cannot load"), "another decision for the same version")
		stop()
		<-done
		require.NoError(t, set.Close())
	})
}
