package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestClockBack(t *testing.T) {
	local, server := time.Now(), time.Now().Add(-5*time.Hour)
	created := server.Add(-time.Hour)
	for name, c := range map[string]struct {
		elapsed, latency, jump time.Duration
		again                  bool
		want                   time.Duration
	}{
		"as it was":                          {5 * time.Second, 0, 0, false, 0},
		"set back":                           {5 * time.Second, 0, -time.Hour, false, time.Hour},
		"set forward":                        {5 * time.Second, 0, time.Hour, false, -time.Hour},
		"a slow reply is no evidence":        {5 * time.Second, 3 * time.Second, 0, false, 0},
		"set back, with a slow reply":        {5 * time.Second, 3 * time.Second, -time.Hour, false, time.Hour},
		"another process has created it new": {5 * time.Second, 0, -time.Hour, true, 0},
	} {
		var b clockBack
		observe := func(info *jetstream.ConsumerInfo, requested, received time.Time) time.Duration {
			b.observe(info, requested, received)
			return b.by(&jetstream.StreamInfo{})
		}
		require.Zero(t, observe(&jetstream.ConsumerInfo{Created: created, TimeStamp: server}, local, local), name)
		info := &jetstream.ConsumerInfo{Created: created, TimeStamp: server.Add(c.elapsed + c.jump)}
		if c.again {
			info.Created = info.TimeStamp
		}
		requested := local.Add(c.elapsed)
		require.Equal(t, c.want, observe(info, requested, requested.Add(c.latency)), name)
		info.TimeStamp = info.TimeStamp.Add(c.elapsed)
		require.LessOrEqual(t, observe(info, requested.Add(c.elapsed), requested.Add(c.elapsed)), time.Duration(0), "%s: only once", name)
	}
	var b clockBack
	for range 2 {
		b.observe(&jetstream.ConsumerInfo{}, local, local)
		require.Zero(t, b.by(&jetstream.StreamInfo{}), "no time is reported")
	}
}

// A response that is ahead of the clock says once that the clock was set back.
func TestResponseAheadOfTheClock(t *testing.T) {
	now := time.Now()
	info := func(last uint64, stored time.Time) *jetstream.StreamInfo {
		return &jetstream.StreamInfo{TimeStamp: now, State: jetstream.StreamState{Msgs: 1, LastSeq: last, LastTime: stored}}
	}
	var b clockBack
	require.Zero(t, b.by(info(1, now.Add(-time.Second))))
	require.Equal(t, time.Hour, b.by(info(2, now.Add(time.Hour))))
	require.Zero(t, b.by(info(2, now.Add(time.Hour))))
	require.Equal(t, time.Hour, b.by(info(3, now.Add(time.Hour))))
}
