package eventlog

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/retrain"
)

// quiet is a source without events.
type quiet struct{}

func (quiet) Events(context.Context, uint64) iter.Seq2[retrain.Event, error] {
	return func(func(retrain.Event, error) bool) {}
}

func (quiet) LastEvent(context.Context) (uint64, error) { return 0, nil }

// A list of events queries the source for its last event. That wakes no stream, and
// does not mark the reader of the source as recovered.
func TestAskingForTheLastEventChangesNothing(t *testing.T) {
	l := New(quiet{}, time.Minute)
	l.err = errors.New("the reader failed")
	moved := l.changed
	_, err := l.Last(t.Context())
	require.NoError(t, err)
	select {
	case <-moved:
		t.Fatal("it woke the streams")
	default:
	}
	require.ErrorContains(t, l.unread(), "the reader failed")
	require.False(t, l.contacted.IsZero())

	require.NoError(t, l.follow(t.Context()))
	require.NoError(t, l.unread())
	<-moved
}
