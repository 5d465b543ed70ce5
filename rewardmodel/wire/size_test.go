package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/rewardmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// The charge for decoding covers the memory of the decoded request.
func TestDecodeBytes(t *testing.T) {
	const n = 200_000
	for name, body := range map[string]string{
		"empty instances": `{"responses":[{"instances":["a"` + strings.Repeat(`,""`, n) + `]}]}`,
		"token offsets":   `{"options":{"dense":"last"},"responses":[{"response":"x","token_offsets":[[0,0]` + strings.Repeat(`,[0,0]`, n) + `]}]}`,
		"empty messages":  `{"responses":[{"messages":[{"role":"","content":""}` + strings.Repeat(`,{"role":"","content":""}`, n) + `]}]}`,
		"long text":       `{"responses":[{"response":"` + strings.Repeat("a", 4<<20) + `"}]}`,
		"metadata":        `{"responses":[{"response":"x","metadata":[1` + strings.Repeat(`,1`, n) + `]}]}`,
		"responses":       `{"responses":[{"response":""}` + strings.Repeat(`,{"response":""}`, rewardmodel.DefaultMaxResponses-1) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(body)
			kept := allocated(func() rewardmodel.Request {
				r, err := DecodeRequest(body, Limits{})
				require.NoError(t, err)
				return r
			})
			slack := int64(unsafe.Sizeof(rewardmodel.Item{})) * rewardmodel.DefaultMaxResponses * 2
			require.LessOrEqual(t, kept, DecodeBytes(body)+slack)
		})
	}
}

// Reading an object with many names needs a table of the names.
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
	// A growing table allocates twice its final size.
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
			var input *rewardmodel.InputError
			require.ErrorAs(t, err, &input)
			require.Equal(t, rewardmodel.KindTooLarge, input.Kind)
			require.Contains(t, input.Field, "responses[")
			require.Contains(t, input.Message, "more than 3; split the request")
		})
	}
}

// Millions of empty instances are rejected before they are allocated.
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
	long := strings.Repeat("v", rewardmodel.MaxName+1)
	for field, body := range map[string]string{
		"model":             `{"model":"` + long + `","responses":[{"response":"x"}]}`,
		"responses[0].id":   `{"responses":[{"id":"` + long + `","response":"x"}]}`,
		"options.tokenizer": `{"responses":[{"response":"x"}],"options":{"dense":"last","tokenizer":"` + long + `"}}`,
	} {
		_, err := DecodeRequest([]byte(body), Limits{})
		var input *rewardmodel.InputError
		require.ErrorAs(t, err, &input)
		require.Equal(t, rewardmodel.KindInvalid, input.Kind)
		require.Equal(t, field, input.Field)
		require.Contains(t, input.Message, "use at most 512")
		_, err = DecodeRequest([]byte(strings.Replace(body, long, long[1:], 1)), Limits{})
		require.NoError(t, err)
	}
}
