package api

import (
	"context"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"assay/api/access"
	"assay/internal/reference"
)

var updateAccess = flag.Bool("update", false, "write the page of docs/reference")

const callerNobody = "no token"

// accessCallers are the columns of the matrix, and the tokens that they present.
func accessCallers() []string {
	return []string{callerNobody, string(access.ScopeScore), string(access.ScopeFeedback), string(access.ScopeAdmin)}
}

// tokenOf is the token of a caller; it has only the scope of the same name.
func tokenOf(caller string) string {
	if caller == callerNobody {
		return ""
	}
	return "Bearer " + strings.Repeat(caller+"-", 4)
}

// matrixServer is a service with a token for each scope, and without backends, which
// are asked only once the caller is authorized.
func matrixServer(t *testing.T) *Server {
	t.Helper()
	var file strings.Builder
	for _, caller := range accessCallers()[1:] {
		file.WriteString(strings.TrimPrefix(tokenOf(caller), "Bearer ") + " " + caller + "\n")
	}
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(file.String()), 0o600))
	tokens, err := access.Load(path, zerolog.Nop())
	require.NoError(t, err)
	server, err := New(DefaultConfig(), Parts{Scorer: noModel{}, Models: noModel{}, Tokens: tokens}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	return server
}

// Every route and RPC, with every scope. What needs no token is listed here: a new
// route that forgets its scope fails the test even if the page is updated.
func TestAccess(t *testing.T) {
	public := []string{
		"/", "/livez", "/readyz", "/metrics", "/openapi.json", "/console/assets/{file}", "/health", "/ping",
		"/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/{model}/ready", "/v2/models/{model}/versions/{version}/ready",
		"/inference.GRPCInferenceService/ServerLive", "/inference.GRPCInferenceService/ServerReady", "/inference.GRPCInferenceService/ModelReady",
		"/inference.GRPCInferenceService/ServerMetadata", "/grpc.health.v1.Health/", "/grpc.reflection.",
	}
	server := matrixServer(t)
	rows := slices.Concat(
		httpAccess(t, "--listen", server.mainServer.Handler),
		httpAccess(t, "--ops-listen", server.opsServer.Handler),
		grpcAccess(t, server))
	for _, row := range rows {
		name := row.Name[strings.Index(row.Name, "/"):]
		open := slices.Contains(public, name) || slices.ContainsFunc(public, func(p string) bool {
			return strings.HasPrefix(p, "/grpc.") && strings.HasPrefix(name, p)
		})
		require.Equal(t, open, slices.Contains(row.Allowed, callerNobody), "%s without a token", row.Name)
		require.Contains(t, row.Allowed, string(access.ScopeAdmin), "admin includes all scopes")
	}
	reference.Check(t, "..", "access.md", reference.AccessPage(accessCallers(), rows), *updateAccess)
}

func httpAccess(t *testing.T, listener string, handler http.Handler) (rows []reference.Access) {
	t.Helper()
	err := chi.Walk(handler.(chi.Routes), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method == http.MethodHead { // as GET
			return nil
		}
		row := reference.Access{Listener: listener, Name: method + " " + pattern}
		for _, caller := range accessCallers() {
			// A profile that is recorded would take its default of 30 s.
			r := httptest.NewRequestWithContext(t.Context(), method, strings.NewReplacer("{profile}", "heap", "{", "", "}", "").Replace(pattern)+"?seconds=1", nil)
			if token := tokenOf(caller); token != "" {
				r.Header.Set("Authorization", token)
			}
			w := httptest.NewRecorder()
			if caller == string(access.ScopeAdmin) && strings.HasPrefix(pattern, "/debug/pprof/") {
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // ends the recording
				r = r.WithContext(ctx)
			}
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
				row.Allowed = append(row.Allowed, caller)
			}
			for _, header := range []string{"X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "Content-Security-Policy", "Cross-Origin-Resource-Policy"} {
				require.NotEmpty(t, w.Header().Get(header), "%s of %s", header, row.Name)
			}
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"), "CORS of %s", row.Name)
		}
		rows = append(rows, row)
		return nil
	})
	require.NoError(t, err)
	return rows
}

func grpcAccess(t *testing.T, server *Server) (rows []reference.Access) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.rpc.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() {
		require.NoError(t, conn.Close())
		server.rpc.Stop()
		require.NoError(t, <-ended)
	}()
	for service, info := range server.rpc.Services() {
		for _, method := range info.Methods {
			name := "/" + service + "/" + method.Name
			row := reference.Access{Listener: "--grpc-listen", Name: name}
			for _, caller := range accessCallers() {
				ctx := t.Context()
				if token := tokenOf(caller); token != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
				}
				switch status.Code(callOnce(ctx, conn, name)) {
				case codes.Unauthenticated, codes.PermissionDenied:
				default:
					row.Allowed = append(row.Allowed, caller)
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// callOnce sends one empty message, whatever the call expects, and returns its status.
func callOnce(ctx context.Context, conn *grpc.ClientConn, method string) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	_ = stream.SendMsg(&emptypb.Empty{}) // its error is that of the receipt
	_ = stream.CloseSend()
	return stream.RecvMsg(&emptypb.Empty{})
}
