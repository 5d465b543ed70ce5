package api_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"

	"assay/api"
	"assay/api/oip/inference"
	"assay/internal/servertls"
	"assay/internal/servertls/tlstest"
)

// secured is a service with TLS on every listener.
type secured struct {
	authority       *tlstest.Authority
	http, ops, grpc string // addresses
}

// secure starts a service with the lines of a token file.
func secure(t *testing.T, lines ...string) secured {
	t.Helper()
	s := secured{authority: tlstest.NewAuthority(t)}
	cert, key, ca := s.authority.Write(t, t.TempDir())
	identity, err := servertls.Load(servertls.Files{Cert: cert, Key: key, ClientCA: ca}, zerolog.Nop())
	require.NoError(t, err)
	server, err := api.New(api.DefaultConfig(), api.Parts{
		Scorer: scorerOf(t, &model{}, 0), Models: served, Tokens: tokenFile(t, lines...), TLS: identity,
	}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	for serve, address := range map[string]*string{"http": &s.http, "ops": &s.ops, "grpc": &s.grpc} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		*address = l.Addr().String()
		ended := make(chan error, 1)
		go func() {
			switch serve {
			case "http":
				ended <- server.Serve(t.Context(), l)
			case "ops":
				ended <- server.ServeOps(t.Context(), l)
			case "grpc":
				ended <- server.ServeGRPC(t.Context(), l)
			}
		}()
		t.Cleanup(func() { await(t, ended, "the end of "+serve) })
	}
	return s
}

// post scores a text with the TLS of a client, and returns the status and the protocol.
func (s secured) post(t *testing.T, client *tls.Config, headers ...string) (status, protocol int) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.http+"/v1/score", strings.NewReader(one("Fine.")))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.ProtoMajor
}

// infer scores a text over gRPC.
func (s secured) infer(t *testing.T, client *tls.Config) codes.Code {
	t.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(credentials.NewTLS(client)))
	require.NoError(t, err)
	defer conn.Close()
	return grpcstatus.Code(conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer", &inference.ModelInferRequest{
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name: "text", Datatype: "BYTES", Shape: []int64{1},
			Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte("Fine.")}},
		}},
	}, &inference.ModelInferResponse{}))
}

func TestClientCertificatesHaveScopes(t *testing.T) {
	s := secure(t, "cert:cn=trainer score", "cert:uri=spiffe://example.org/labels feedback labels", adminToken+" admin ops")
	id, err := url.Parse("spiffe://example.org/labels")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		client  *tls.Config
		headers []string
		status  int
		grpc    codes.Code
	}{
		"score":            {s.authority.Client(t, "trainer"), nil, 200, codes.OK},
		"feedback":         {s.authority.Client(t, "x", func(c *x509.Certificate) { c.URIs = []*url.URL{id} }), nil, 403, codes.PermissionDenied},
		"no line":          {s.authority.Client(t, "other"), nil, 401, codes.Unauthenticated},
		"no certificate":   {s.authority.Client(t, ""), nil, 401, codes.Unauthenticated},
		"token":            {s.authority.Client(t, ""), []string{"Authorization", "Bearer " + adminToken}, 200, codes.Unauthenticated},
		"token first":      {s.authority.Client(t, "trainer"), []string{"Authorization", "Bearer unknown-unknown-unknown"}, 401, codes.OK},
		"header of others": {s.authority.Client(t, ""), []string{"X-Forwarded-Client-Cert", "Subject=\"CN=trainer\""}, 401, codes.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			status, protocol := s.post(t, c.client, c.headers...)
			require.Equal(t, c.status, status)
			require.Equal(t, 2, protocol)
			require.Equal(t, c.grpc, s.infer(t, c.client))
		})
	}
}

// Nothing is served without TLS, and health needs no certificate.
func TestTLSOnEveryListener(t *testing.T) {
	s := secure(t, adminToken+" admin ops")
	for _, address := range []string{s.http, s.ops} {
		plain, err := http.Get("http://" + address + "/livez")
		require.NoError(t, err)
		require.NoError(t, plain.Body.Close())
		require.Equal(t, 400, plain.StatusCode)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: s.authority.Client(t, ""), DisableKeepAlives: true}}
		response, err := client.Get("https://" + address + "/livez")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 200, response.StatusCode)
		_, err = http.Get("https://" + address + "/livez") //nolint:bodyclose // there is none
		require.ErrorContains(t, err, "certificate", "the system does not know the authority")
	}
}
