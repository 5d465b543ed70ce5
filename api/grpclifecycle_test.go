package api_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	rpcstatus "google.golang.org/grpc/status"

	"assay/api"
	"assay/api/access"
	"assay/api/oip/inference"
	"assay/rewardmodel"
)

// Authentication is the same as over HTTP.
func TestGRPCCallers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("secret-of-the-trainer-0001 score trainer\nsecret-of-the-labeller-01 feedback labeller\n"), 0o600))
	tokens, err := access.Load(file, zerolog.Nop())
	require.NoError(t, err)
	guarded := parts(func(p *api.Parts) { p.Tokens = tokens })
	trusted := option(func(s *setup) { s.parts.Tokens, s.cfg.TrustLoopback = tokens, true })
	unguarded := parts(func(*api.Parts) {})
	for name, c := range map[string]struct {
		with      option
		authority string
		headers   []string
		code      codes.Code
		says      string
	}{
		"local":              {unguarded, "", nil, codes.OK, ""},
		"local, with tokens": {guarded, "", nil, codes.Unauthenticated, "--trust-loopback"},
		"local, trusted":     {trusted, "", nil, codes.OK, ""},
		"proxy, trusted":     {trusted, "", []string{"via", "1.1 proxy"}, codes.Unauthenticated, "proxy (header via)"},
		"proxy, empty value": {trusted, "", []string{"x-forwarded-for", "", "x-forwarded-for", "10.0.0.1"}, codes.Unauthenticated, "proxy (header x-forwarded-for)"},
		"a token":            {guarded, "assay.example:8001", []string{"authorization", "Bearer secret-of-the-trainer-0001"}, codes.OK, ""},
		"no token":           {guarded, "assay.example:8001", nil, codes.Unauthenticated, "send Authorization: Bearer TOKEN"},
		"no tokens at all":   {unguarded, "assay.example:8001", nil, codes.Unauthenticated, "--token-file"},
		"a wrong token":      {guarded, "", []string{"authorization", "Bearer secret-of-somebody-else"}, codes.Unauthenticated, "the token is unknown"},
		"no bearer":          {guarded, "", []string{"authorization", "Basic x"}, codes.Unauthenticated, "not a single bearer token"},
		"two tokens":         {guarded, "", []string{"authorization", "Bearer secret-of-the-trainer-0001", "authorization", "Bearer x"}, codes.Unauthenticated, "not a single bearer token"},
		"of another scope":   {guarded, "", []string{"authorization", "Bearer secret-of-the-labeller-01"}, codes.PermissionDenied, "scope score"},
		"through a proxy":    {unguarded, "", []string{"x-forwarded-for", "10.0.0.1"}, codes.Unauthenticated, "proxy (header x-forwarded-for)"},
		"anyone, if allowed": {config(func(c *api.Config) { c.Insecure = true }), "assay.example", nil, codes.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := startRPC(t, scorerOf(t, &model{}, 0), c.with)
			conn := s.conn
			if c.authority != "" {
				conn = dial(t, s.addr, grpc.WithAuthority(c.authority))
			}
			ctx := metadata.AppendToOutgoingContext(t.Context(), c.headers...)
			for _, method := range []string{"ModelInfer", "RepositoryIndex", "RepositoryModelLoad", "ModelMetadata", "ModelConfig"} {
				_, err := callWith[inference.ModelReadyResponse](t, ctx, conn, method, texts("a"))
				if method == "ModelInfer" || c.code != codes.OK {
					requireStatus(t, err, c.code, c.says)
				}
			}
			_, err := callWith[inference.ServerReadyResponse](t, ctx, conn, "ServerReady", &inference.ServerReadyRequest{})
			require.NoError(t, err)

			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/inference.GRPCInferenceService/ModelStreamInfer")
			require.NoError(t, err)
			_ = stream.SendMsg(texts("a"))
			require.Equal(t, c.code, rpcstatus.Code(stream.RecvMsg(&inference.ModelStreamInferResponse{})))
		})
	}
}

// A stream ends at its next request once its token was removed.
func TestGRPCStreamOfARevokedToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("secret-of-the-trainer-0001 score\n"), 0o600))
	loaded, err := access.Load(file, zerolog.Nop())
	require.NoError(t, err)
	watching := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer close(watching); loaded.Watch(ctx) }()
	defer func() { stop(); <-watching }()
	s := startRPC(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Tokens = loaded }))
	stream, err := s.conn.NewStream(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret-of-the-trainer-0001"),
		&streamDesc, streamInfer)
	require.NoError(t, err)
	ask := func() error {
		if err := stream.SendMsg(texts("a")); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return stream.RecvMsg(&inference.ModelStreamInferResponse{})
	}
	require.NoError(t, ask())
	require.NoError(t, os.WriteFile(file, []byte("secret-of-another-one-0002 score\n"), 0o600))
	require.Eventually(t, func() bool {
		err = ask()
		return err != nil
	}, timeout, 10*time.Millisecond)
	requireStatus(t, err, codes.Unauthenticated, "the token is unknown")
}

// The deadline of a call reaches the scorer; that of the service is the maximum.
func TestGRPCDeadline(t *testing.T) {
	entered := make(chan struct{}, 1)
	waits := scorerFunc(func(ctx context.Context, _ rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return rewardmodel.ScoreResponse{}, ctx.Err()
	})
	s := startRPC(t, waits)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // long enough for the call to reach a busy server
	defer cancel()
	_, err := callWith[inference.ModelInferResponse](t, ctx, s.conn, "ModelInfer", texts("a"))
	requireStatus(t, err, codes.DeadlineExceeded, "")
	await(t, entered, "the call")
	require.Contains(t, []any{"DeadlineExceeded", "Canceled"}, s.log.request(t)["code"]) // whichever side was first

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-entered
		cancel()
	}()
	_, err = callWith[inference.ModelInferResponse](t, ctx, s.conn, "ModelInfer", texts("a"))
	requireStatus(t, err, codes.Canceled, "")
	require.Equal(t, "Canceled", s.log.request(t)["code"])

	s = startRPC(t, waits, config(func(c *api.Config) { c.RequestTimeout = 500 * time.Millisecond }))
	_, err = infer(t, s, texts("a"))
	requireStatus(t, err, codes.DeadlineExceeded, "at most --request-timeout, 500ms")
	// A client that opens a call and sends nothing does not extend it.
	stream, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/inference.GRPCInferenceService/ModelInfer")
	require.NoError(t, err)
	requireStatus(t, stream.RecvMsg(&inference.ModelInferResponse{}), codes.DeadlineExceeded, "did not arrive")
}

// A shutdown rejects new calls, waits for those in flight, and cancels them at its
// deadline.
func TestGRPCShutdown(t *testing.T) {
	m := gated()
	s := startRPC(t, scorerOf(t, m, 0))
	answered := make(chan error, 1)
	go func() {
		_, err := infer(t, s, texts("a"))
		answered <- err
	}()
	await(t, m.entered, "the batch")
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	require.Eventually(t, func() bool {
		_, err := callWith[inference.ServerLiveResponse](t, t.Context(), dial(t, s.addr), "ServerLive", &inference.ServerLiveRequest{})
		return rpcstatus.Code(err) == codes.Unavailable
	}, timeout, 10*time.Millisecond)
	select {
	case err := <-down:
		t.Fatalf("the shutdown did not wait: %v", err)
	default:
	}
	close(m.release)
	require.NoError(t, await(t, answered, "the answer"))
	require.NoError(t, await(t, down, "the end of the shutdown"))
}

func TestGRPCShutdownDeadline(t *testing.T) {
	entered := make(chan struct{})
	s := startRPC(t, scorerFunc(func(ctx context.Context, _ rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		close(entered)
		<-ctx.Done()
		return rewardmodel.ScoreResponse{}, ctx.Err()
	}))
	answered := make(chan error, 1)
	go func() {
		_, err := infer(t, s, texts("a"))
		answered <- err
	}()
	await(t, entered, "the call")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
	require.Equal(t, codes.Unavailable, rpcstatus.Code(await(t, answered, "the answer")))
}
