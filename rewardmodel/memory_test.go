package rewardmodel

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func newTestMemory(t *testing.T, limit int64) *Memory {
	t.Helper()
	m, err := NewMemory(limit, nil)
	require.NoError(t, err)
	return m
}

func TestMemory(t *testing.T) {
	m := newTestMemory(t, 64<<20)
	large := m.Open()
	require.NoError(t, large.Grow(48<<20))
	require.ErrorIs(t, m.Open().Grow(smallRequest+1), ErrOverloaded, "large requests get three quarters")

	small := m.Open()
	require.NoError(t, small.Grow(smallRequest), "a quarter is for small requests")
	require.ErrorIs(t, small.Grow(1), ErrOverloaded, "it is no longer small")
	require.EqualValues(t, smallRequest, small.held, "a rejected amount is not held")

	large.ShrinkTo(1 << 20)
	require.NoError(t, small.Grow(8<<20))
	small.Close()
	require.Zero(t, small.held)
	require.ErrorIs(t, small.Grow(1), ErrClosed)
	large.Close()
	require.NoError(t, m.Open().Grow(48<<20), "everything was released")
}

func TestMemoryOfBufferLeavesRoomForLargeRequests(t *testing.T) {
	m := newTestMemory(t, 64<<20)
	buffer := m.OpenBuffer()
	require.NoError(t, buffer.Grow(16<<20))
	large := m.Open()
	require.NoError(t, large.Grow(48<<20), "the largest request that an idle process serves")
	require.ErrorIs(t, buffer.Grow(1), ErrOverloaded, "but the limit holds for all")
	require.ErrorIs(t, m.Open().Grow(1), ErrOverloaded)
	buffer.Shrink(15 << 20)
	require.EqualValues(t, 1<<20, buffer.held)
	large.Close()
	buffer.Close()
	require.NoError(t, m.Open().Grow(48<<20), "everything was released")
	require.Nil(t, (*Memory)(nil).OpenBuffer())
}

func TestMemoryOfATooLargeRequest(t *testing.T) {
	var input *InputError
	require.ErrorAs(t, newTestMemory(t, 16<<20).Open().Grow(12<<20+1), &input)
	require.Equal(t, KindTooLarge, input.Kind)
	require.Contains(t, input.Message, "request memory")
}

func TestMemoryWithoutBound(t *testing.T) {
	var none *Memory
	r := none.Open()
	require.NoError(t, r.Grow(1<<60))
	r.Shrink(1)
	r.ShrinkTo(0)
	r.Close()
	_, err := NewMemory(0, nil)
	require.ErrorContains(t, err, "must be positive")
}

// allocated returns the heap memory that the result of make keeps alive.
func allocated[T any](make func() T) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func TestShorten(t *testing.T) {
	require.Equal(t, "short", Shorten("short"))
	require.Less(t, len(Shorten(strings.Repeat("ä", 1<<20))), 2100)
}
