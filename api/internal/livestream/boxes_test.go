package livestream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/rewardmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func memoryOf(t *testing.T, bytes int64) *rewardmodel.Reservation {
	t.Helper()
	memory, err := rewardmodel.NewMemory(bytes, nil)
	require.NoError(t, err)
	reservation := memory.Open()
	t.Cleanup(reservation.Close)
	return reservation
}

// Text that arrives while the scorer is busy is taken at once, in its order, before the
// end.
func TestInboxMergesText(t *testing.T) {
	b := newInbox(nil)
	for _, piece := range []string{"a", "", "b", "c"} {
		require.NoError(t, b.put(piece))
	}
	reason := errors.New("reason")
	b.end(reason)
	text, more, err := b.take(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, "abc", text)
	_, more, err = b.take(t.Context(), nil)
	require.ErrorIs(t, err, reason)
	require.False(t, more)
}

// A client that is faster than the scorer waits; what does not fit the memory of the
// request is refused.
func TestInboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memoryOf(t, 8<<20)
		b := newInbox(memory)
		piece := strings.Repeat("x", maxPending/2+1)
		require.NoError(t, b.put(piece))
		put := make(chan error)
		go func() { put <- b.put(piece) }()
		synctest.Wait()
		select {
		case <-put:
			t.Fatal("there is more than maxPending")
		default:
		}
		text, _, err := b.take(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, piece, text)
		require.NoError(t, <-put)
		var overload *rewardmodel.InputError
		require.ErrorAs(t, b.put(strings.Repeat("x", 7<<20)), &overload)
	})
}

// A receiver that waits for room continues when the session has ended.
func TestInboxStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInbox(nil)
		require.NoError(t, b.put(strings.Repeat("x", maxPending)))
		put := make(chan error)
		go func() { put <- b.put("more") }()
		synctest.Wait()
		b.stop()
		require.NoError(t, <-put)
	})
}

// take returns when the client leaves, or when the session ends by itself.
func TestInboxIsLeft(t *testing.T) {
	b := newInbox(nil)
	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	_, _, err := b.take(ctx, nil)
	require.ErrorIs(t, err, reason)
	done := make(chan struct{})
	close(done)
	_, more, err := b.take(t.Context(), done)
	require.NoError(t, err)
	require.False(t, more)
}

// What a client does not read is charged until it is sent, and limited.
func TestOutboxIsBounded(t *testing.T) {
	memory := memoryOf(t, 1<<20)
	b := newOutbox(memory)
	message := make([]byte, 100<<10)
	var err error
	count := 0
	for ; err == nil; count++ {
		err = b.put(message)
	}
	require.Greater(t, count, 5)
	var refused *rewardmodel.InputError
	require.ErrorAs(t, err, &refused)
	b.force([]byte("error"))
	b.close()
	messages, ok := b.take()
	require.True(t, ok)
	require.Len(t, messages, count)
	require.Equal(t, "error", string(messages[count-1]))
	for _, m := range messages {
		b.sent(m)
	}
	require.Zero(t, b.held)
	require.NoError(t, b.put(message))
	b.discard()
	_, ok = b.take()
	require.False(t, ok)
}
