package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"assay/api"
	"assay/api/access"
	"assay/api/oip/inference"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
)

// tokenFile is the tokens of a file with the given lines.
func tokenFile(t *testing.T, lines ...string) *access.Tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	loaded, err := access.Load(path, zerolog.Nop())
	require.NoError(t, err)
	return loaded
}

func withTokens(tokens *access.Tokens) option {
	return parts(func(p *api.Parts) { p.Tokens = tokens })
}

func TestHashedToken(t *testing.T) {
	sum := sha256.Sum256([]byte(scoreToken))
	hash := hex.EncodeToString(sum[:])
	s := start(t, scorerOf(t, &model{}, 0), withTokens(tokenFile(t, "sha256:"+hash+" score trainer")))
	require.Equal(t, 200, s.score(t, one("Fine."), "Authorization", "Bearer "+scoreToken).StatusCode)
	for _, token := range []string{hash, "sha256:" + hash} {
		require.Equal(t, 401, s.score(t, one("Fine."), "Authorization", "Bearer "+token).StatusCode, "the file is no secret")
	}
}

func TestRateOfAToken(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), withTokens(tokenFile(t, scoreToken+" score trainer rate=2/h", adminToken+" admin ops")))
	score := func(token string) answer { return s.score(t, one("Fine."), "Authorization", "Bearer "+token) }
	for range 2 {
		require.Equal(t, 200, score(scoreToken).StatusCode)
	}
	got := score(scoreToken)
	require.Equal(t, 429, got.StatusCode)
	code, _, message := got.failure(t)
	require.Equal(t, "rate_limited", code)
	require.Contains(t, message, "2 per 1h0m0s")
	seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.InDelta(t, 1800, seconds, 60)
	require.Equal(t, 200, score(adminToken).StatusCode, "others are not limited")
	require.Equal(t, 429, s.do(t, "POST", "/classify", strings.NewReader(`{"input":"Fine."}`), "Authorization", "Bearer "+scoreToken).StatusCode, "all protocols")
	require.Contains(t, string(s.get(t, "/metrics").body), `assay_rate_limited_total{caller="trainer",limit="rate"} 2`)
}

// The sessions of a token count as its requests, and those beyond its limit cannot fill
// the audit log.
func TestRateOfSessions(t *testing.T) {
	audit := &auditLines{}
	log := zerolog.New(audit)
	s := start(t, mustNotScore, withTokens(tokenFile(t, scoreToken+" score trainer rate=2/h")), parts(func(p *api.Parts) { p.Audit = &log }))
	open := func() int {
		return s.do(t, "POST", "/console/session", nil, "Authorization", "Bearer "+scoreToken).StatusCode
	}
	require.Equal(t, 200, open())
	require.Equal(t, 200, s.get(t, "/console/session", "Authorization", "Bearer "+scoreToken).StatusCode)
	for range 150 { // few enough for a slow machine, on which the rate refills the burst
		require.Equal(t, 429, open())
	}
	lines, _ := audit.take(t)
	require.GreaterOrEqual(t, len(lines), 100)
	require.Less(t, len(lines), 151)
}

func TestConcurrencyAndSizeOfAToken(t *testing.T) {
	m := gated()
	s := start(t, scorerOf(t, m, 0), withTokens(tokenFile(t, scoreToken+" score trainer concurrent=1 body=200")))
	score := func(text string) answer { return s.score(t, one(text), "Authorization", "Bearer "+scoreToken) }
	first := make(chan answer, 1)
	go func() { first <- score("Fine.") }()
	await(t, m.entered, "the first request")
	got := score("Fine.")
	require.Equal(t, 429, got.StatusCode)
	require.Equal(t, "1", got.Header.Get("Retry-After"))
	m.release <- struct{}{}
	require.Equal(t, 200, await(t, first, "the response").StatusCode)
	got = score(strings.Repeat("long ", 100))
	require.Equal(t, 413, got.StatusCode, "%s", got.body)
	require.Contains(t, string(got.body), "200 bytes")
}

func TestLimitsOverGRPC(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), withTokens(tokenFile(t, scoreToken+" score trainer rate=1/h", adminToken+" admin ops body=100")))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.ServeGRPC(t.Context(), l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	call := func(token, text string) (metadata.MD, error) {
		var trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		err := conn.Invoke(ctx, "/inference.GRPCInferenceService/ModelInfer", &inference.ModelInferRequest{
			Inputs: []*inference.ModelInferRequest_InferInputTensor{{
				Name: "text", Datatype: "BYTES", Shape: []int64{1},
				Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte(text)}},
			}},
		}, &inference.ModelInferResponse{}, grpc.Trailer(&trailer))
		return trailer, err
	}
	_, err = call(scoreToken, "Fine.")
	require.NoError(t, err)
	trailer, err := call(scoreToken, "Fine.")
	require.Equal(t, codes.ResourceExhausted, grpcstatus.Code(err), "%v", err)
	require.NotEmpty(t, trailer.Get("retry-after"))
	require.NotEmpty(t, trailer.Get("grpc-retry-pushback-ms"))
	trailer, err = call(adminToken, strings.Repeat("long ", 100))
	require.Equal(t, codes.ResourceExhausted, grpcstatus.Code(err), "%v", err)
	require.Empty(t, trailer.Get("retry-after"), "no wait would help")
}

// A label request that the service cannot serve does not use up the quota of its caller.
func TestLabelsOfARefusedRequest(t *testing.T) {
	f, s := withFleet(t, withTokens(tokenFile(t, scoreToken+" feedback rater labels=2/h")))
	send := func() int {
		return s.do(t, "POST", "/v1/feedback", strings.NewReader(`{"items":[{"id":"r1","label":"violation","response":"a"},{"id":"r2","label":"violation","response":"b"}]}`),
			"Authorization", "Bearer "+scoreToken).StatusCode
	}
	for _, f.err = range []error{feedback.ErrUnavailable, feedback.ErrStoreFull, rewardmodel.ErrNotReady} {
		require.Equal(t, 503, send(), "%v", f.err)
	}
	f.err = nil
	require.Equal(t, 202, send())
	require.Equal(t, 429, send())
}

// A withdrawal counts as a label: the quota also bounds what a token can remove.
func TestWithdrawalsUseTheQuotaOfLabels(t *testing.T) {
	f, s := withFleet(t, withTokens(tokenFile(t, scoreToken+" feedback rater labels=2/h")))
	withdraw := func(query string) int {
		return s.do(t, "DELETE", "/v1/feedback/r1/labels"+query, nil, "Authorization", "Bearer "+scoreToken).StatusCode
	}
	for _, f.err = range []error{feedback.ErrUnavailable, feedback.ErrStoreFull, rewardmodel.ErrNotReady} {
		require.Equal(t, 503, withdraw("?rater=ann"), "%v", f.err)
	}
	f.err = nil
	require.Equal(t, 400, withdraw(""))
	require.Equal(t, 200, withdraw("?rater=ann"))
	require.Equal(t, 200, withdraw("?rater=ben"))
	calls := len(f.calls)
	require.Equal(t, 429, withdraw("?rater=carl"))
	require.Len(t, f.calls, calls)
}
