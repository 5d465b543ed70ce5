package js

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var c Clock
	observe := func(ahead, delay time.Duration) time.Duration {
		c.Observe(now.Add(delay/2+ahead), now, now.Add(delay))
		return now.Sub(c.Local(now))
	}
	require.Zero(t, observe(0, time.Second), "equal clocks")
	require.Zero(t, observe(400*time.Millisecond, time.Second), "within the uncertainty of the round trip")
	require.Equal(t, time.Hour, observe(time.Hour, time.Second))
	require.Equal(t, time.Hour, observe(time.Hour+time.Second, 4*time.Second), "a slow reply does not change the estimate")
	require.Equal(t, -time.Minute, observe(-time.Minute, time.Millisecond))
	c.Observe(time.Time{}, now, now)
	require.Equal(t, now.Add(time.Minute), c.Local(now), "a server that does not report its time")
}
