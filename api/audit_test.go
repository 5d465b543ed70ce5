package api_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
)

// auditLines is an audit log in memory.
type auditLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (a *auditLines) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(line)
}

// take returns the lines since the last call.
func (a *auditLines) take(t *testing.T) (lines []map[string]any, text string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	text = a.text.String()
	a.text.Reset()
	for line := range strings.Lines(text) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		lines = append(lines, fields)
	}
	return lines, text
}

func TestAuditLog(t *testing.T) {
	audit := &auditLines{}
	log := zerolog.New(audit).With().Timestamp().Logger().Level(zerolog.ErrorLevel) // does not drop the lines
	f := &fakeFleet{}
	s := start(t, scorerOf(t, &model{}, 0), withTokens(tokens(t)), parts(func(p *api.Parts) {
		p.Audit, p.Feedback, p.Promotions = &log, f, f
	}))
	admin := []string{"Authorization", "Bearer " + adminToken}
	for name, c := range map[string]struct {
		method, path, body, token       string
		action, by, via, result, detail string
	}{
		"labels":     {"POST", "/v1/feedback", `{"items":[{"id":"r1","response":"top secret text","label":"violation"}]}`, feedbackToken, "label", "", "token", "ok", `"items":1`},
		"withdrawal": {"DELETE", "/v1/feedback/r1/labels?rater=ann", "", feedbackToken, "withdraw", "", "token", "ok", `"subject":"r1","rater":"ann"`},
		"erasure":    {"DELETE", "/v1/feedback/r1", "", adminToken, "erase", "ops", "token", "ok", `"subject":"r1"`},
		"promotion":  {"POST", "/v1/models/v7/promote", `{"reason":"top secret text"}`, adminToken, "promote", "ops", "token", "ok", `"subject":"v7"`},
		"session":    {"POST", "/console/session", "", adminToken, "session_open", "ops", "token", "ok", ""},
		"refused":    {"POST", "/v1/models/v7/promote", "", scoreToken, "refused", "trainer", "token", "insufficient_scope", `"scope":"admin"`},
		"unknown":    {"POST", "/v1/models/v7/promote", "", "top-secret-token-of-nobody", "refused", "", "", "unauthorized", `"scope":"admin"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.do(t, c.method, c.path, strings.NewReader(c.body), "Authorization", "Bearer "+c.token)
			lines, text := audit.take(t)
			require.Len(t, lines, 1, "%s", got.body)
			line := lines[0]
			require.Equal(t, c.action, line["audit"])
			require.Equal(t, c.via, line["via"])
			require.Equal(t, c.result, line["result"], "%s", got.body)
			if c.by != "" {
				require.Equal(t, c.by, line["by"])
			}
			require.Equal(t, got.Header.Get("X-Request-Id"), line["request_id"])
			require.NotEmpty(t, line["time"])
			require.NotEmpty(t, line["remote"])
			require.Contains(t, text, c.detail)
			require.NotContains(t, text, "secret", "texts and tokens")
		})
	}
	require.Equal(t, 200, s.get(t, "/v1/models", admin...).StatusCode)
	lines, _ := audit.take(t)
	require.Empty(t, lines, "what changes nothing")
}

// Unauthenticated callers cannot fill the disk.
func TestRefusedRequestsAreRecordedAtABoundedRate(t *testing.T) {
	audit := &auditLines{}
	log := zerolog.New(audit).With().Timestamp().Logger()
	s := start(t, scorerOf(t, &model{}, 0), withTokens(tokens(t)), parts(func(p *api.Parts) { p.Audit = &log }))
	for range 150 { // few enough for a slow machine, on which the rate refills the burst
		require.Equal(t, 401, s.score(t, one("Fine.")).StatusCode)
	}
	lines, _ := audit.take(t)
	require.GreaterOrEqual(t, len(lines), 100)
	require.Less(t, len(lines), 150)
}
