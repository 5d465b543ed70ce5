package rewardmodel

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

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
	require.ErrorIs(t, m.Open().Grow(smallRequest+1), ErrOverloaded, "three quarters are what large requests get")

	small := m.Open()
	require.NoError(t, small.Grow(smallRequest), "a quarter is for small requests")
	require.ErrorIs(t, small.Grow(1), ErrOverloaded, "it is not small any more")
	require.EqualValues(t, smallRequest, small.held, "what is refused is not held")

	large.ShrinkTo(1 << 20)
	require.NoError(t, small.Grow(8<<20))
	small.Close()
	require.Zero(t, small.held)
	require.ErrorIs(t, small.Grow(1), ErrClosed)
	large.Close()
	require.NoError(t, m.Open().Grow(48<<20), "all was given back")
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
	require.NoError(t, m.Open().Grow(48<<20), "all was given back")
	require.Nil(t, (*Memory)(nil).OpenBuffer())
}

func TestMemoryTooLargeAtAnyTime(t *testing.T) {
	var input *InputError
	require.ErrorAs(t, newTestMemory(t, 16<<20).Open().Grow(12<<20+1), &input)
	require.Equal(t, KindTooLarge, input.Kind)
	require.Contains(t, input.Message, "--request-memory")
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

// allocated is how much of the heap what make returns keeps alive.
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

// What is charged for decoding covers what decoding keeps.
func TestDecodeBytes(t *testing.T) {
	const n = 200_000
	for name, body := range map[string]string{
		"empty instances": `{"responses":[{"instances":["a"` + strings.Repeat(`,""`, n) + `]}]}`,
		"token offsets":   `{"options":{"dense":"last"},"responses":[{"response":"x","token_offsets":[[0,0]` + strings.Repeat(`,[0,0]`, n) + `]}]}`,
		"empty messages":  `{"responses":[{"messages":[{"role":"","content":""}` + strings.Repeat(`,{"role":"","content":""}`, n) + `]}]}`,
		"long text":       `{"responses":[{"response":"` + strings.Repeat("a", 4<<20) + `"}]}`,
		"metadata":        `{"responses":[{"response":"x","metadata":[1` + strings.Repeat(`,1`, n) + `]}]}`,
		"responses":       `{"responses":[{"response":""}` + strings.Repeat(`,{"response":""}`, DefaultMaxResponses-1) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(body)
			kept := allocated(func() Request {
				r, err := DecodeRequest(body, Limits{})
				require.NoError(t, err)
				return r
			})
			slack := int64(unsafe.Sizeof(Item{})) * DefaultMaxResponses * 2
			require.LessOrEqual(t, kept, DecodeBytes(body)+slack)
		})
	}
}

// An object of many names costs a table of them while it is read.
func TestDecodeBytesOfNames(t *testing.T) {
	var body bytes.Buffer
	body.WriteString(`{"responses":[{"response":"x"}]`)
	for i := range 300_000 {
		fmt.Fprintf(&body, `,"%x":0`, i)
	}
	body.WriteString(`}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := DecodeRequest(body.Bytes(), Limits{})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	// A table that doubles allocates twice what it ends with.
	require.LessOrEqual(t, int64(after.TotalAlloc-before.TotalAlloc), 2*DecodeBytes(body.Bytes())+32*600_000)
}

func TestDecodeLimitsInstances(t *testing.T) {
	for name, body := range map[string]string{
		"of one response":  `{"responses":[{"instances":["a","b","c","d"]}]}`,
		"of all responses": `{"responses":[{"instances":["a","b"]},{"instances":["c","d"]}]}`,
		"messages":         `{"responses":[{"messages":[` + strings.Repeat(`{"role":"assistant","content":"a"},`, 3) + `{"role":"user","content":"a"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeRequest([]byte(body), Limits{MaxInstances: 4})
			require.NoError(t, err)
			_, err = DecodeRequest([]byte(body), Limits{MaxInstances: 3})
			var input *InputError
			require.ErrorAs(t, err, &input)
			require.Equal(t, KindTooLarge, input.Kind)
			require.Contains(t, input.Field, "responses[")
			require.Contains(t, input.Message, "more than 3; split the request")
		})
	}
}

// Millions of empty instances are refused before they are built.
func TestDecodeStopsAtTheLimit(t *testing.T) {
	body := []byte(`{"responses":[{"instances":[""` + strings.Repeat(`,""`, 4<<20) + `]}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := DecodeRequest(body, Limits{})
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "more than 524288")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
}

func TestNamesHaveALimit(t *testing.T) {
	long := strings.Repeat("v", MaxName+1)
	for field, body := range map[string]string{
		"model":             `{"model":"` + long + `","responses":[{"response":"x"}]}`,
		"responses[0].id":   `{"responses":[{"id":"` + long + `","response":"x"}]}`,
		"options.tokenizer": `{"responses":[{"response":"x"}],"options":{"dense":"last","tokenizer":"` + long + `"}}`,
	} {
		_, err := DecodeRequest([]byte(body), Limits{})
		var input *InputError
		require.ErrorAs(t, err, &input)
		require.Equal(t, KindInvalid, input.Kind)
		require.Equal(t, field, input.Field)
		require.Contains(t, input.Message, "use at most 512")
		_, err = DecodeRequest([]byte(strings.Replace(body, long, long[1:], 1)), Limits{})
		require.NoError(t, err)
	}
}

func TestShorten(t *testing.T) {
	require.Equal(t, "short", Shorten("short"))
	require.Less(t, len(Shorten(strings.Repeat("ä", 1<<20))), 2100)
}
