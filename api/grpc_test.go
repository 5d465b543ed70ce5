package api_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	rpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"assay/api"
	"assay/api/oip/inference"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// rpc is a gRPC server on a free port, and a client of it.
type rpc struct {
	*api.Server
	conn    *grpc.ClientConn
	addr    string
	log     logBook
	metrics *prometheus.Registry
	done    chan error // what ServeGRPC returned
}

func startRPC(t *testing.T, scorer api.Scorer, options ...option) *rpc {
	t.Helper()
	with := setup{cfg: api.DefaultConfig(), parts: api.Parts{Scorer: scorer, Models: served}}
	for _, o := range options {
		o(&with)
	}
	s := &rpc{log: make(logBook, 4096), metrics: prometheus.NewRegistry(), done: make(chan error, 1)}
	var err error
	s.Server, err = api.New(with.cfg, with.parts, zerolog.New(s.log), s.metrics)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	go func() { s.done <- s.ServeGRPC(context.Background(), l) }()
	s.conn = dial(t, s.addr)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, await(t, s.done, "the end of ServeGRPC"))
	})
	return s
}

func dial(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call invokes a method of the protocol.
func call[Out any, Message interface {
	*Out
	proto.Message
}](t *testing.T, s *rpc, method string, in proto.Message, options ...grpc.CallOption) (Message, error) {
	t.Helper()
	return callWith[Out, Message](t, t.Context(), s.conn, method, in, options...)
}

func callWith[Out any, Message interface {
	*Out
	proto.Message
}](t *testing.T, ctx context.Context, conn *grpc.ClientConn, method string, in proto.Message, options ...grpc.CallOption) (Message, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out := Message(new(Out))
	return out, conn.Invoke(ctx, "/inference.GRPCInferenceService/"+method, in, out, options...)
}

func infer(t *testing.T, s *rpc, in *inference.ModelInferRequest, options ...grpc.CallOption) (*inference.ModelInferResponse, error) {
	t.Helper()
	return call[inference.ModelInferResponse](t, s, "ModelInfer", in, options...)
}

// input is a BYTES tensor whose texts are in its contents.
func input(name string, texts ...string) *inference.ModelInferRequest_InferInputTensor {
	contents := &inference.InferTensorContents{}
	for _, text := range texts {
		contents.BytesContents = append(contents.BytesContents, []byte(text))
	}
	return &inference.ModelInferRequest_InferInputTensor{Name: name, Datatype: "BYTES", Shape: []int64{int64(len(texts))}, Contents: contents}
}

func texts(t ...string) *inference.ModelInferRequest {
	return &inference.ModelInferRequest{ModelName: "assay", Inputs: []*inference.ModelInferRequest_InferInputTensor{input("text", t...)}}
}

func requestedOutputs(names ...string) (outputs []*inference.ModelInferRequest_InferRequestedOutputTensor) {
	for _, name := range names {
		outputs = append(outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{Name: name})
	}
	return outputs
}

func requireStatus(t *testing.T, err error, code codes.Code, says string) {
	t.Helper()
	require.Equal(t, code, rpcstatus.Code(err), "%v", err)
	require.Contains(t, rpcstatus.Convert(err).Message(), says)
}

func TestGRPCInferContents(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0))
	ask := texts("Fine 🙂. Not # fine.", "")
	ask.Id = "7"
	a, err := infer(t, s, ask, grpc.UseCompressor(gzip.Name))
	require.NoError(t, err)
	require.Equal(t, "7", a.Id)
	require.Equal(t, "assay", a.ModelName)
	require.Equal(t, "v7", a.ModelVersion)
	require.Empty(t, a.RawOutputContents)
	var names []string
	for _, o := range a.Outputs {
		names = append(names, o.Name+" "+o.Datatype)
		require.Equal(t, []int64{2}, o.Shape)
	}
	require.Equal(t, []string{"reward FP32", "violation FP32", "compliant BOOL", "witness_start INT32", "witness_end INT32", "witness_text BYTES"}, names)
	require.InDelta(t, 0.0474, a.Outputs[0].Contents.Fp32Contents[0], 1e-3)
	require.Zero(t, a.Outputs[0].Contents.Fp32Contents[1])
	require.Equal(t, []bool{false, false}, a.Outputs[2].Contents.BoolContents)
	require.Equal(t, []int32{8, -1}, a.Outputs[3].Contents.IntContents)
	require.Equal(t, []int32{19, -1}, a.Outputs[4].Contents.IntContents)
	require.Equal(t, [][]byte{[]byte("Not # fine."), {}}, a.Outputs[5].Contents.BytesContents)
}

// Triton's clients send and expect raw tensors; NeMo-Aligner sends sentences of
// the shape [n, 1] and reads rewards.
func TestGRPCInferRaw(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0))
	ask := &inference.ModelInferRequest{
		ModelName:        "reward_model",
		Inputs:           []*inference.ModelInferRequest_InferInputTensor{{Name: "sentences", Datatype: "BYTES", Shape: []int64{2, 1}}},
		Outputs:          requestedOutputs("rewards", "exceeded", "witness_text"),
		RawInputContents: [][]byte{tensor("Fine.", "Not # fine.")},
	}
	a, err := infer(t, s, ask)
	require.NoError(t, err)
	require.Len(t, a.RawOutputContents, 3)
	require.Equal(t, []int64{2, 1}, a.Outputs[0].Shape)
	require.Nil(t, a.Outputs[0].Contents)
	require.InDelta(t, 0.9526, math.Float32frombits(binary.LittleEndian.Uint32(a.RawOutputContents[0])), 1e-3)
	require.InDelta(t, 0.0474, math.Float32frombits(binary.LittleEndian.Uint32(a.RawOutputContents[0][4:])), 1e-3)
	require.Equal(t, []byte{0, 0}, a.RawOutputContents[1])
	require.Equal(t, tensor("Fine.", "Not # fine."), a.RawOutputContents[2])
}

// The scorer gets the prompt of a response; a model version pins it, and so does a
// model name that is a version.
func TestGRPCRequest(t *testing.T) {
	var got rewardmodel.Request
	s := startRPC(t, scorerFunc(func(_ context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		got = r
		return rewardmodel.ScoreResponse{Results: make([]rewardmodel.Result, len(r.Responses))}, nil
	}))
	ask := texts("a")
	ask.Inputs = append(ask.Inputs, input("prompt", "Q?"))
	for name, c := range map[string]struct{ model, version, pinned string }{
		"any name": {"reward_model", "", ""}, "a version": {"assay", "v6", "v6"}, "a name that is a version": {"v6", "", "v6"},
	} {
		ask.ModelName, ask.ModelVersion = c.model, c.version
		_, err := infer(t, s, ask)
		require.NoError(t, err, name)
		require.Equal(t, c.pinned, got.Model, name)
		require.Equal(t, "Q?", got.Responses[0].Prompt)
		require.Equal(t, "a", *got.Responses[0].Response)
	}
}

func TestGRPCBadRequests(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) {
		c.MaxBody, c.Limits.MaxResponses = 1<<16, 4
	}))
	change := func(f func(*inference.ModelInferRequest)) *inference.ModelInferRequest {
		ask := texts("a")
		f(ask)
		return ask
	}
	raw := func(data ...[]byte) *inference.ModelInferRequest {
		return change(func(r *inference.ModelInferRequest) { r.Inputs[0].Contents, r.RawInputContents = nil, data })
	}
	shape := func(shape ...int64) *inference.ModelInferRequest {
		return change(func(r *inference.ModelInferRequest) { r.Inputs[0].Shape = shape })
	}
	shared := map[string]*inference.InferParameter{"shared_memory_region": {}}
	for name, c := range map[string]struct {
		in   *inference.ModelInferRequest
		code codes.Code
		says string
	}{
		"nothing":           {&inference.ModelInferRequest{}, codes.InvalidArgument, `inputs: there is no input "text"`},
		"no shape":          {shape(), codes.InvalidArgument, "inputs[0].shape: is missing"},
		"negative":          {shape(-1), codes.InvalidArgument, "dimension -1"},
		"huge":              {shape(1<<32, 1<<32), codes.InvalidArgument, "2^31"},
		"overflow":          {shape(math.MaxInt64, math.MaxInt64), codes.InvalidArgument, "2^31"},
		"shape":             {shape(2), codes.InvalidArgument, "inputs[0].shape: says 2 elements, and data has 1"},
		"none":              {texts(), codes.InvalidArgument, "is empty"},
		"datatype":          {change(func(r *inference.ModelInferRequest) { r.Inputs[0].Datatype = "INT64" }), codes.InvalidArgument, "inputs[0].datatype: must be BYTES"},
		"output":            {change(func(r *inference.ModelInferRequest) { r.Outputs = requestedOutputs("x") }), codes.InvalidArgument, "outputs[0].name: unknown output"},
		"prompts":           {change(func(r *inference.ModelInferRequest) { r.Inputs = append(r.Inputs, input("prompt", "a", "b")) }), codes.InvalidArgument, "2 prompts for 1 texts"},
		"UTF-8":             {texts("\xff"), codes.InvalidArgument, "inputs[0].data: element 0 is not valid UTF-8"},
		"raw UTF-8":         {raw(tensor("\xff")), codes.InvalidArgument, "element 0 is not valid UTF-8"},
		"raw length":        {raw([]byte{1, 0}), codes.InvalidArgument, "ends within the length"},
		"raw cut":           {raw([]byte{9, 0, 0, 0, 'a'}), codes.InvalidArgument, "has 9 bytes, and 1 are left"},
		"raw, two elements": {raw(tensor("a", "b")), codes.InvalidArgument, "has 1 elements, and data has more"},
		"raw, two entries":  {raw(tensor("a"), tensor("b")), codes.InvalidArgument, "has 2 entries for 1 inputs"},
		"raw and contents":  {change(func(r *inference.ModelInferRequest) { r.RawInputContents = [][]byte{tensor("a")} }), codes.InvalidArgument, "cannot be combined with raw_input_contents"},
		"shared input":      {change(func(r *inference.ModelInferRequest) { r.Inputs[0].Parameters = shared }), codes.InvalidArgument, "inputs[0].parameters.shared_memory_region"},
		"shared output": {change(func(r *inference.ModelInferRequest) {
			r.Outputs = requestedOutputs("reward")
			r.Outputs[0].Parameters = shared
		}), codes.InvalidArgument, "outputs[0].parameters.shared_memory_region"},
		"too many":  {texts("a", "b", "c", "d", "e"), codes.ResourceExhausted, "send at most 4"},
		"too large": {texts(strings.Repeat("a", 1<<16)), codes.ResourceExhausted, "and the limit of this call is 65536"},
		"version":   {change(func(r *inference.ModelInferRequest) { r.ModelVersion = "v9" }), codes.NotFound, "v9"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := infer(t, s, c.in)
			requireStatus(t, err, c.code, c.says)
		})
	}
	_, err := infer(t, s, texts(strings.Repeat("a", 1<<16)), grpc.UseCompressor(gzip.Name))
	requireStatus(t, err, codes.ResourceExhausted, "and the limit of this call is")
	_, err = call[inference.ModelInferResponse](t, s, "ModelInfer", &inference.ModelReadyRequest{Name: "x"})
	requireStatus(t, err, codes.InvalidArgument, "no input")
	_, err = call[inference.ModelInferResponse](t, s, "ModelStatistics", &inference.ModelReadyRequest{})
	requireStatus(t, err, codes.Unimplemented, "unknown method")
	out := &inference.ModelReadyResponse{}
	requireStatus(t, s.conn.Invoke(t.Context(), "/x.Y/Z", &inference.ModelReadyRequest{}, out), codes.Unimplemented, "/x.Y/Z")
}

// frames is a codec that sends raw bytes.
type frames struct{}

func (frames) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (frames) Unmarshal(data []byte, v any) error { return nil }
func (frames) Name() string                       { return "proto" }

func TestGRPCBrokenMessages(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0))
	for name, message := range map[string][]byte{
		"cut":           {0x0a, 0x05, 'a'},
		"wire type":     {0x0f},
		"invalid UTF-8": {0x0a, 0x01, 0xff},
	} {
		for _, method := range []string{"ModelInfer", "ModelReady"} {
			err := s.conn.Invoke(t.Context(), "/inference.GRPCInferenceService/"+method, message, &[]byte{}, grpc.ForceCodec(frames{}))
			requireStatus(t, err, codes.InvalidArgument, "the message cannot be read")
			require.Equal(t, codes.InvalidArgument.String(), s.log.request(t)["code"], name)
		}
	}
}

// Every failure of scoring has its code; retryable ones say when to retry.
func TestGRPCFailures(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		code     codes.Code
		says     string
		after    string
		pushback string
	}{
		"overloaded": {&rewardmodel.OverloadedError{RetryAfter: 2500 * time.Millisecond}, codes.Unavailable, "", "3", "2500"},
		"closed":     {rewardmodel.ErrClosed, codes.Unavailable, "", "1", "1000"},
		"not ready":  {fmt.Errorf("%w: the model is being loaded", rewardmodel.ErrNotReady), codes.Unavailable, "being loaded", "1", "1000"},
		"invalid":    {&rewardmodel.InputError{Field: "responses[0]", Message: "is wrong"}, codes.InvalidArgument, "responses[0]: is wrong", "", ""},
		"too long":   {&rewardmodel.InputError{Kind: rewardmodel.KindTooLarge, Message: "is much"}, codes.ResourceExhausted, "is much", "", ""},
		"unfit":      {&rewardmodel.InputError{Kind: rewardmodel.KindUnprocessable, Message: "is odd"}, codes.InvalidArgument, "is odd", "", ""},
		"no version": {&rewardmodel.InputError{Kind: rewardmodel.KindNotFound, Message: "is not there"}, codes.NotFound, "is not there", "", ""},
		"late":       {context.DeadlineExceeded, codes.DeadlineExceeded, "--request-timeout", "", ""},
		"model":      {fmt.Errorf("secret: %w", rewardmodel.ErrModel), codes.Internal, "the model failed on this request", "", ""},
		"internal":   {fmt.Errorf("secret"), codes.Internal, "the service failed on this request", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := startRPC(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
				return rewardmodel.ScoreResponse{}, c.err
			}))
			var header, trailer metadata.MD
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "mine")
			_, err := callWith[inference.ModelInferResponse](t, ctx, s.conn, "ModelInfer", texts("a"), grpc.Header(&header), grpc.Trailer(&trailer))
			requireStatus(t, err, c.code, c.says)
			require.NotContains(t, err.Error(), "secret")
			require.Equal(t, c.after, strings.Join(trailer.Get("retry-after"), ","))
			require.Equal(t, c.pushback, strings.Join(trailer.Get("grpc-retry-pushback-ms"), ","))
			entry := s.log.request(t)
			require.Equal(t, "mine", entry["request_id"])
			require.Equal(t, "inference.GRPCInferenceService/ModelInfer", entry["method"])
			require.Equal(t, c.code.String(), entry["code"])
		})
	}
}

func TestGRPCPanic(t *testing.T) {
	s := startRPC(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) { panic("secret") }))
	_, err := infer(t, s, texts("a"))
	requireStatus(t, err, codes.Internal, "the service failed on this request")
	ready, err := call[inference.ServerLiveResponse](t, s, "ServerLive", &inference.ServerLiveRequest{})
	require.NoError(t, err)
	require.True(t, ready.Live)
}

func TestGRPCModels(t *testing.T) {
	var loaded []string
	s := startRPC(t, scorerFunc(func(_ context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		loaded = append(loaded, r.Model)
		return rewardmodel.ScoreResponse{}, nil
	}))
	server, err := call[inference.ServerMetadataResponse](t, s, "ServerMetadata", &inference.ServerMetadataRequest{})
	require.NoError(t, err)
	require.Equal(t, "assay 2", server.Name+" "+server.Version)

	m, err := call[inference.ModelMetadataResponse](t, s, "ModelMetadata", &inference.ModelMetadataRequest{Name: "assay"})
	require.NoError(t, err)
	require.Equal(t, []string{"v7"}, m.Versions)
	require.Equal(t, "text", m.Inputs[0].Name)
	require.Equal(t, "reward", m.Outputs[0].Name)
	require.Equal(t, []int64{-1}, m.Outputs[0].Shape)
	_, err = call[inference.ModelMetadataResponse](t, s, "ModelMetadata", &inference.ModelMetadataRequest{Name: "assay", Version: "v9"})
	requireStatus(t, err, codes.NotFound, `version "v9" of model "assay" is not loaded`)

	config, err := call[inference.ModelConfigResponse](t, s, "ModelConfig", &inference.ModelConfigRequest{Name: "assay"})
	require.NoError(t, err)
	require.Equal(t, int32(rewardmodel.DefaultMaxResponses), config.Config.MaxBatchSize)
	require.Equal(t, inference.DataType_TYPE_STRING, config.Config.Input[1].DataType)
	require.Equal(t, "rewards", config.Config.Output[6].Name)
	require.Equal(t, inference.DataType_TYPE_FP32, config.Config.Output[6].DataType)

	index, err := call[inference.RepositoryIndexResponse](t, s, "RepositoryIndex", &inference.RepositoryIndexRequest{})
	require.NoError(t, err)
	require.Len(t, index.Models, 2)
	require.Equal(t, "assay v7 READY", index.Models[0].Name+" "+index.Models[0].Version+" "+index.Models[0].State)

	for _, name := range []string{"assay", "default", "v6"} {
		_, err = call[inference.RepositoryModelLoadResponse](t, s, "RepositoryModelLoad", &inference.RepositoryModelLoadRequest{ModelName: name})
		require.NoError(t, err)
		_, err = call[inference.RepositoryModelUnloadResponse](t, s, "RepositoryModelUnload", &inference.RepositoryModelUnloadRequest{ModelName: name})
		requireStatus(t, err, codes.InvalidArgument, "stays loaded")
	}
	require.Equal(t, []string{"", "", "v6"}, loaded)
	_, err = call[inference.RepositoryModelUnloadResponse](t, s, "RepositoryModelUnload", &inference.RepositoryModelUnloadRequest{ModelName: "other"})
	require.NoError(t, err)
}

func TestGRPCHealth(t *testing.T) {
	missing := fmt.Errorf("loading")
	s := startRPC(t, scorerOf(t, &model{}, 0), checks(api.Check{Name: "model", Ready: func(context.Context) error { return missing }}))
	health := grpc_health_v1.NewHealthClient(s.conn)
	ready := func() (server, model bool, overall grpc_health_v1.HealthCheckResponse_ServingStatus) {
		a, err := call[inference.ServerReadyResponse](t, s, "ServerReady", &inference.ServerReadyRequest{})
		require.NoError(t, err)
		b, err := call[inference.ModelReadyResponse](t, s, "ModelReady", &inference.ModelReadyRequest{Name: "assay"})
		require.NoError(t, err)
		h, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "inference.GRPCInferenceService"})
		require.NoError(t, err)
		return a.Ready, b.Ready, h.Status
	}
	requireReady := func(want bool) {
		a, b, h := ready()
		require.Equal(t, want, a)
		require.Equal(t, want, b)
		require.Equal(t, want, h == grpc_health_v1.HealthCheckResponse_SERVING)
	}
	requireReady(false)
	missing = nil
	require.Eventually(t, func() bool {
		_, _, h := ready()
		return h == grpc_health_v1.HealthCheckResponse_SERVING
	}, timeout, time.Millisecond)
	requireReady(true)
	m, err := call[inference.ModelReadyResponse](t, s, "ModelReady", &inference.ModelReadyRequest{Name: "assay", Version: "v9"})
	require.NoError(t, err)
	require.False(t, m.Ready)
	_, err = health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "x"})
	requireStatus(t, err, codes.NotFound, "unknown service")
	s.Drain()
	requireReady(false)
	_, err = infer(t, s, texts("a")) // still served
	require.NoError(t, err)
}

// Reflection describes the calls; a client that keeps it open does not block a shutdown.
func TestGRPCReflection(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0))
	stream, err := grpc_reflection_v1.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "inference.GRPCInferenceService"}}))
	a, err := stream.Recv()
	require.NoError(t, err)
	require.NotEmpty(t, a.GetFileDescriptorResponse().GetFileDescriptorProto())
	s.Drain()
	_, err = stream.Recv()
	requireStatus(t, err, codes.Unavailable, "shutting down")
}

// New limits apply to the next call, whether lower or higher.
func TestGRPCSizeLimitChanges(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.MaxBody = 1 << 16 }))
	between := texts(strings.Repeat("a", 1<<14))
	_, err := infer(t, s, between)
	require.NoError(t, err)
	require.NoError(t, s.SetLimits(1<<13, wire.Limits{}))
	_, err = infer(t, s, between)
	requireStatus(t, err, codes.ResourceExhausted, "and the limit of this call is 8192")
	require.NoError(t, s.SetLimits(1<<20, wire.Limits{}))
	_, err = infer(t, s, between)
	require.NoError(t, err)
	_, err = infer(t, s, texts(strings.Repeat("a", 1<<18))) // more than at the start
	require.NoError(t, err)
	require.Error(t, s.SetLimits(0, wire.Limits{}))
}

func TestGRPCStream(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0))
	open := func() grpc.BidiStreamingClient[inference.ModelInferRequest, inference.ModelStreamInferResponse] {
		stream, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/inference.GRPCInferenceService/ModelStreamInfer")
		require.NoError(t, err)
		return &grpc.GenericClientStream[inference.ModelInferRequest, inference.ModelStreamInferResponse]{ClientStream: stream}
	}
	stream := open()
	for _, c := range []struct{ text, id, says string }{{"a", "1", ""}, {"\xff", "2", "not valid UTF-8"}, {"b", "3", ""}} {
		ask := texts(c.text)
		ask.Id = c.id
		require.NoError(t, stream.Send(ask))
		a, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, c.id, a.InferResponse.Id)
		require.Contains(t, a.ErrorMessage, c.says)
		require.Equal(t, c.says == "", a.ErrorMessage == "")
	}
	require.NoError(t, stream.CloseSend())
	_, err := stream.Recv()
	require.ErrorContains(t, err, "EOF")

	stream = open()
	require.NoError(t, stream.Send(texts("a")))
	_, err = stream.Recv()
	require.NoError(t, err)
	s.Drain()
	_, err = stream.Recv()
	requireStatus(t, err, codes.Unavailable, "shutting down")
}

func TestGRPCMetrics(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0))
	_, err := infer(t, s, texts("a"))
	require.NoError(t, err)
	_, err = call[inference.ModelInferResponse](t, s, "Nothing", &inference.ModelReadyRequest{})
	require.Error(t, err)
	entry := s.log.request(t)
	require.EqualValues(t, 1, entry["responses"])
	require.NotZero(t, entry["bytes_in"])
	s.log.request(t)
	families, err := s.metrics.Gather()
	require.NoError(t, err)
	var shown bytes.Buffer
	for _, f := range families {
		if f.GetName() == "assay_grpc_requests_total" {
			for _, m := range f.GetMetric() {
				fmt.Fprintln(&shown, m.GetLabel()[1].GetValue(), m.GetLabel()[0].GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	require.Equal(t, "inference.GRPCInferenceService/ModelInfer OK 1\nunmatched Unimplemented 1\n", shown.String())
}
