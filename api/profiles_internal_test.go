package api

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"assay/api/access"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestWhoMayProfile(t *testing.T) {
	const near, far, heap = "127.0.0.1:50000", "192.0.2.7:50000", "/debug/pprof/heap"
	score, admin := "score-score-score", "admin-admin-admin"
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte(score+" score\n"+admin+" admin\n"), 0o600))
	loaded, err := access.Load(file, zerolog.Nop())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		path, peer, host, token string
		tokens                  *access.Tokens
		insecure, main          bool
		status                  int
	}{
		"near":               {path: heap, peer: near, status: 200},
		"list":               {path: "/debug/pprof/", peer: near, status: 200},
		"goroutines":         {path: "/debug/pprof/goroutine?debug=1", peer: near, status: 200},
		"trace":              {path: "/debug/pprof/trace?seconds=0.001", peer: near, status: 200},
		"command line":       {path: "/debug/pprof/cmdline", peer: near, status: 404},
		"unknown":            {path: "/debug/pprof/secrets", peer: near, status: 404},
		"far":                {path: heap, peer: far, status: 401},
		"far, insecure":      {path: heap, peer: far, insecure: true, status: 401},
		"far, list":          {path: "/debug/pprof/", peer: far, insecure: true, status: 401},
		"near, rebound name": {path: heap, peer: near, host: "example.com", status: 403},
		"near, tokens":       {path: heap, peer: near, tokens: loaded, status: 401},
		"far, score token":   {path: heap, peer: far, tokens: loaded, token: score, status: 403},
		"far, admin token":   {path: heap, peer: far, tokens: loaded, token: admin, status: 200},
		"main, near":         {path: heap, peer: near, main: true, status: 404},
		"main, list":         {path: "/debug/pprof/", peer: near, main: true, status: 404},
		"main, admin token":  {path: heap, peer: far, main: true, tokens: loaded, token: admin, status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Insecure = c.insecure
			s, err := New(cfg, Parts{Tokens: c.tokens}, zerolog.Nop(), prometheus.NewRegistry())
			require.NoError(t, err)
			handler := s.opsServer.Handler
			if c.main {
				handler = s.main
			}
			r := httptest.NewRequest(http.MethodGet, c.path, nil)
			r.RemoteAddr, r.Host = c.peer, "127.0.0.1:8081"
			if c.host != "" {
				r.Host = c.host
			}
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code, w.Body)
			if c.status == http.StatusOK {
				require.NotEmpty(t, w.Body.Bytes())
			}
		})
	}
}
