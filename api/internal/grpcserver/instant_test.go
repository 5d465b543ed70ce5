package grpcserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInstant(t *testing.T) {
	now := instant{base: time.Now()}
	now.set()
	at, _ := now.get()
	require.Contains(t, at.String(), "m=", "a monotonic clock, whatever the wall clock does")
	synctest.Test(t, func(t *testing.T) {
		i := instant{base: time.Now()}
		_, set := i.get()
		require.False(t, set)
		i.setOnce()
		first, set := i.get()
		require.True(t, set, "also at its base")
		<-time.After(time.Second)
		i.setOnce()
		at, _ := i.get()
		require.Equal(t, first, at)
		i.set()
		at, _ = i.get()
		require.Equal(t, time.Now(), at)
		i.clear()
		_, set = i.get()
		require.False(t, set)
	})
}
