package api_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	"assay/api"
	"assay/api/oip/inference"
	"assay/rewardmodel"
)

// witnesses scores every response equally, with the same long witness.
func witnesses(size int) scorerFunc {
	witness := &rewardmodel.Witness{Text: strings.Repeat("x", size)}
	return func(_ context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		results := make([]rewardmodel.Result, len(r.Responses))
		for i := range results {
			results[i].Witness = witness
		}
		return rewardmodel.ScoreResponse{Results: results}, nil
	}
}

// allocated returns the number of bytes that a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Tensors that make a reply too large are rejected before they are rendered.
func TestLargeTensorsAreNotRendered(t *testing.T) {
	body := `{"inputs":[{"name":"text","shape":[80],"datatype":"BYTES","data":["a"` + strings.Repeat(`,"a"`, 79) + `]}],"parameters":{"binary_data_output":true}}`
	s := start(t, witnesses(1<<20))
	var a answer
	require.Less(t, allocated(func() {
		a = s.do(t, "POST", "/v2/models/assay/infer", strings.NewReader(body))
	}), uint64(16<<20))
	require.Equal(t, 413, a.StatusCode, "%s", a.body)

	in := texts(strings.Split(strings.Repeat("a", 80), "")...)
	rpc := startRPC(t, witnesses(1<<20))
	var err error
	require.Less(t, allocated(func() { _, err = infer(t, rpc, in) }), uint64(16<<20))
	requireStatus(t, err, codes.ResourceExhausted, "the results take more than")
}

// Tensors are charged before they are rendered.
func TestTensorsAreCharged(t *testing.T) {
	m := memory(t, 32<<20)
	body := `{"inputs":[{"name":"text","shape":[30],"datatype":"BYTES","data":["a"` + strings.Repeat(`,"a"`, 29) + `]}],"parameters":{"binary_data_output":true}}`
	s := start(t, witnesses(1<<20), within(m))
	var a answer
	require.Less(t, allocated(func() {
		a = s.do(t, "POST", "/v2/models/assay/infer", strings.NewReader(body))
	}), uint64(16<<20))
	require.Equal(t, 413, a.StatusCode, "%s", a.body)

	rpc := startRPC(t, witnesses(1<<20), within(m))
	var err error
	require.Less(t, allocated(func() { _, err = infer(t, rpc, texts(strings.Split(strings.Repeat("a", 30), "")...)) }), uint64(16<<20))
	requireStatus(t, err, codes.ResourceExhausted, "request memory")
}

// Detections are charged before they are built.
func TestDetectionsAreCharged(t *testing.T) {
	instances := make([]rewardmodel.Instance, 200_000)
	for i := range instances {
		instances[i] = rewardmodel.Instance{End: 1, Violation: 0.9}
	}
	s := start(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		return rewardmodel.ScoreResponse{Results: []rewardmodel.Result{{Threshold: 0.5, Instances: instances}}}, nil
	}), within(memory(t, 32<<20)))
	var a answer
	require.Less(t, allocated(func() {
		a = s.do(t, "POST", "/api/v1/text/contents", strings.NewReader(`{"contents":["a"]}`))
	}), uint64(8<<20))
	require.Equal(t, 413, a.StatusCode, "%s", a.body)
}

func TestOutputsAreNamedOnce(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	a := s.do(t, "POST", "/v2/models/assay/infer", strings.NewReader(
		`{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"reward"},{"name":"witness_text"},{"name":"reward"}]}`))
	require.Equal(t, 400, a.StatusCode, "%s", a.body)
	require.Contains(t, string(a.body), `outputs[2].name: names \"reward\" again`)
}

// Probes work while requests hold all memory.
func TestProbesWithoutMemory(t *testing.T) {
	m := memory(t, 4<<20)
	for _, size := range []int64{3 << 20, 1 << 20} {
		held := m.Open()
		defer held.Close()
		require.NoError(t, held.Grow(size))
	}
	s := start(t, mustNotScore, within(m), checks(api.Check{Name: "model", Ready: func(context.Context) error { return nil }}))
	require.Equal(t, http.StatusServiceUnavailable, s.score(t, one("a")).StatusCode)
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/health", "/ping", "/v2/health/live", "/v2/health/ready", "/v2/models/assay/ready"} {
		require.Equal(t, http.StatusOK, s.get(t, path).StatusCode, path)
	}
	s.Drain()
	a := s.get(t, "/readyz")
	require.Contains(t, string(a.body), "draining")

	rpc := startRPC(t, mustNotScore, within(m))
	_, err := infer(t, rpc, texts("a"))
	requireStatus(t, err, codes.Unavailable, "request memory")
	ctx := t.Context()
	_, err = callWith[inference.ServerLiveResponse](t, ctx, rpc.conn, "ServerLive", &inference.ServerLiveRequest{})
	require.NoError(t, err)
	_, err = callWith[inference.ServerReadyResponse](t, ctx, rpc.conn, "ServerReady", &inference.ServerReadyRequest{})
	require.NoError(t, err)
	_, err = callWith[inference.ModelReadyResponse](t, ctx, rpc.conn, "ModelReady", &inference.ModelReadyRequest{Name: "assay", Version: "a long version"})
	require.NoError(t, err)
	health, err := grpc_health_v1.NewHealthClient(rpc.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "inference.GRPCInferenceService"})
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.Status)
}

// A change that took effect is not reported as one to make again, although its response
// finds no memory.
func TestChangesWithoutMemory(t *testing.T) {
	const limit = 8 << 20
	for request, status := range map[string]int{
		"POST /v1/models/v7/promote": 200, "POST /v1/models/rollback": 200, "POST /v1/training": 202, "POST /v1/training/stop": 202,
		"DELETE /v1/feedback/r1": 200, "DELETE /v1/feedback/r1/labels?rater=ann": 200, "POST /v1/feedback": 202,
	} {
		t.Run(request, func(t *testing.T) {
			m := memory(t, limit)
			f, s := withFleet(t, within(m))
			f.called = func() { // the others take all memory meanwhile
				for size := int64(limit / 4); size > 0; size /= 2 {
					for {
						other := m.Open()
						t.Cleanup(other.Close)
						if other.Grow(size) != nil {
							break
						}
					}
				}
			}
			method, path, _ := strings.Cut(request, " ")
			var body io.Reader
			if path == "/v1/feedback" {
				body = strings.NewReader(`{"items":[{"id":"r1","label":"violation","response":"You fool."}]}`)
			}
			a := s.do(t, method, path, body)
			require.Equal(t, status, a.StatusCode, "%s", a.body)
			require.Len(t, f.calls, 1)
			require.Equal(t, 503, s.get(t, "/v1/feedback/r1/labels").StatusCode, "a request that changes nothing")
		})
	}
}

// The window of a zstd decoder is charged while a body is decompressed.
func TestZstdWindowsAreCharged(t *testing.T) {
	compressed := func(window int, bodies ...string) string {
		var frames strings.Builder
		for _, body := range bodies {
			z, err := zstd.NewWriter(&frames, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
			require.NoError(t, err)
			_, err = z.Write([]byte(body[:10]))
			require.NoError(t, err)
			require.NoError(t, z.Flush()) // so that the encoder does not know how much follows
			_, err = z.Write([]byte(body[10:]))
			require.NoError(t, err)
			require.NoError(t, z.Close())
		}
		return frames.String()
	}
	m := memory(t, 8<<20)
	s := start(t, scorerOf(t, &model{}, 0), within(m))
	score := func(body string) answer { return s.score(t, body, "Content-Encoding", "zstd") }
	long := one(strings.Repeat("a", 64<<10))
	require.Equal(t, 413, score(compressed(8<<20, long)).StatusCode)
	require.Equal(t, 200, score(compressed(1<<20, long)).StatusCode)
	require.Equal(t, 200, score(compressed(1<<20, long[:100], long[100:])).StatusCode, "frame by frame")
	require.Equal(t, 400, score(compressed(1<<20, long[:100])+compressed(8<<20, long[100:])).StatusCode, "a window beyond what was charged")
	require.Eventually(t, free(m, 8<<20), timeout, 10*time.Millisecond)
}
