package rewardmodel

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestWatchdogLimits(t *testing.T) {
	tests := []struct {
		name   string
		before time.Duration // that a call of 1000 tokens took; 0: there was none
		tokens int
		limit  time.Duration
	}{
		{"the first call", 0, 1000, time.Minute},
		{"a fast model", 10 * time.Millisecond, 1000, time.Minute},
		{"a slow model", 10 * time.Second, 1000, 200 * time.Second},
		{"a slow model and a short text", 10 * time.Second, 10, time.Minute},
		{"a slow model and a long text", 10 * time.Second, 2000, 400 * time.Second},
		{"a very slow model", time.Hour, 1000, 20 * time.Minute},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := NewWatchdog(nil)
				require.NoError(t, err)
				if tc.before > 0 {
					w.Begin(10, 1000)
					<-time.After(tc.before) // of the bubble's clock, as below
					w.End()
				}
				w.Begin(3, tc.tokens)
				<-time.After(tc.limit - time.Second)
				require.NoError(t, w.Stalled(), "slow is not stalled")
				<-time.After(2 * time.Second)
				var stalled *StalledError
				require.ErrorAs(t, w.Stalled(), &stalled)
				require.ErrorIs(t, stalled, ErrStalled)
				require.Equal(t, 3, stalled.Sequences)
				require.Equal(t, tc.tokens, stalled.Tokens)
				require.InDelta(t, tc.limit, stalled.Limit, float64(time.Millisecond))
				require.False(t, stalled.Hopeless())
				<-time.After(tc.limit)
				require.True(t, errors.As(w.Stalled(), &stalled) && stalled.Hopeless())
				w.End()
				require.NoError(t, w.Stalled(), "it ended after all")
			})
		})
	}
}

func TestWatchdogIgnoresAnIdleModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		w, err := NewWatchdog(reg)
		require.NoError(t, err)
		w.Begin(1, 10)
		w.End()
		<-time.After(24 * time.Hour) // of the bubble's clock: no request, or loading and training
		require.NoError(t, w.Stalled())
		gauge := func() float64 {
			families, err := reg.Gather()
			require.NoError(t, err)
			require.Equal(t, "assay_model_stalled", families[0].GetName())
			return families[0].GetMetric()[0].GetGauge().GetValue()
		}
		require.Zero(t, gauge())
		w.Begin(1, 10)
		<-time.After(61 * time.Second)
		require.Equal(t, 1.0, gauge())
	})
}
