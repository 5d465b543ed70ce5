package quota

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api/internal/failure"
	"assay/internal/errorcode"
)

// refusal returns the code of an error and when to retry.
func refusal(t *testing.T, err error) (errorcode.Code, time.Duration) {
	t.Helper()
	var refused *failure.Error
	require.ErrorAs(t, err, &refused)
	return refused.Code, refused.RetryAfter
}

func TestRetryAfterIsHonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Requests: Rate{3, time.Minute}})
		begin := func() error {
			end, err := q.Begin(time.Second)
			if err == nil {
				end()
			}
			return err
		}
		for range 3 { // the burst
			require.NoError(t, begin())
		}
		for range 10 { // a refused request takes nothing
			code, wait := refusal(t, begin())
			require.Equal(t, errorcode.RateLimited, code)
			require.InDelta(t, 20*time.Second, wait, float64(time.Millisecond))
		}
		<-time.After(20 * time.Second)
		require.NoError(t, begin(), "after the advised time")
		require.EqualValues(t, 10, q.Refused(KindRate))
		require.Error(t, begin())
	})
}

// A refused request takes nothing, also while others are refused.
func TestConcurrentRefusals(t *testing.T) {
	q := New(Limits{Requests: Rate{1, time.Hour}})
	require.NoError(t, q.Request())
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() { _ = q.Request() })
	}
	callers.Wait()
	require.GreaterOrEqual(t, q.requests.Tokens(), 0.0)
}

func TestConcurrentRequests(t *testing.T) {
	q := New(Limits{Concurrent: 2})
	first, err := q.Begin(time.Second)
	require.NoError(t, err)
	second, err := q.Begin(time.Second)
	require.NoError(t, err)
	_, err = q.Begin(3 * time.Second)
	code, wait := refusal(t, err)
	require.Equal(t, errorcode.RateLimited, code)
	require.Equal(t, 3*time.Second, wait)
	first()
	third, err := q.Begin(time.Second)
	require.NoError(t, err, "a refused request is not in flight")
	second()
	third()
}

func TestLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Labels: Rate{100, time.Hour}})
		code, _ := refusal(t, q.Label(101))
		require.Equal(t, errorcode.TooLarge, code, "no wait would help")
		require.NoError(t, q.Label(90))
		_, wait := refusal(t, q.Label(20))
		require.InDelta(t, 6*time.Minute, wait, float64(time.Second))
		require.NoError(t, q.Label(10), "a refused request takes nothing")
		<-time.After(6 * time.Minute)
		require.NoError(t, q.Label(10))
	})
}

func TestRefundedLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Labels: Rate{100, time.Hour}})
		require.NoError(t, q.Label(100))
		q.RefundLabels(60)
		require.NoError(t, q.Label(60))
		_, wait := refusal(t, q.Label(1))
		require.InDelta(t, 36*time.Second, wait, float64(time.Millisecond))
		q.RefundLabels(100)
		<-time.After(time.Hour)
		require.NoError(t, q.Label(100))
		require.Error(t, q.Label(1), "no more than the burst")
	})
}

func TestNoQuota(t *testing.T) {
	var q *Quota
	end, err := q.Begin(time.Second)
	require.NoError(t, err)
	end()
	require.NoError(t, q.Label(1e9))
	q.RefundLabels(1e9)
	require.NoError(t, q.Request())
	require.Zero(t, q.Limits())
	require.NoError(t, New(Limits{}).Label(1e9))
	New(Limits{}).RefundLabels(1e9)
}
