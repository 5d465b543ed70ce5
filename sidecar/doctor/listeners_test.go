package doctor

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListeners(t *testing.T) {
	listen := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		return l.Addr().String()
	}
	is := func(context.Context, string) (string, bool) { return "an assay", true }
	other := func(context.Context, string) (string, bool) { return "", false }
	outcome{OK, []string{"free"}}.of(t, listener{"--listen", "127.0.0.1:0", other}.findings(t.Context()))
	outcome{Warning, []string{"in use by an assay", "--listen"}}.of(t, listener{"--listen", listen(), is}.findings(t.Context()))
	outcome{Error, []string{"another program", "--grpc-listen"}}.of(t, listener{"--grpc-listen", listen(), other}.findings(t.Context()))
	outcome{Error, []string{"192.0.2.1", "an address of this machine"}}.of(t, listener{"--listen", "192.0.2.1:8080", other}.findings(t.Context()))
	outcome{Error, []string{"port"}}.of(t, listener{"--listen", "127.0.0.1:none", other}.findings(t.Context()))
	require.Contains(t, fixListen(syscall.EACCES), "above 1023")
	for address, want := range map[string]string{":80": "127.0.0.1:80", "0.0.0.0:80": "127.0.0.1:80", "10.0.0.1:80": "10.0.0.1:80", "[::1]:80": "[::1]:80"} {
		require.Equal(t, want, reachable(address))
	}
}

func TestWhoAnswersOverHTTP(t *testing.T) {
	for name, tc := range map[string]struct {
		replies map[string]string
		want    string
		is      bool
	}{
		"assay":        {map[string]string{"/livez": `{"status":"alive"}`, "/v1/models": `{"data":[{"version":"v7"}]}`}, "an assay that serves the model v7", true},
		"with tokens":  {map[string]string{"/livez": `{"status":"alive"}`}, "an assay", true},
		"another":      {map[string]string{"/livez": "ok"}, "", false},
		"a web server": {nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reply, ok := tc.replies[r.URL.Path]
				if !ok {
					w.WriteHeader(http.StatusUnauthorized)
				}
				_, _ = w.Write([]byte(reply))
			}))
			defer server.Close()
			who, is := httpService(t.Context(), strings.TrimPrefix(server.URL, "http://"))
			require.Equal(t, tc.want, who)
			require.Equal(t, tc.is, is)
		})
	}
}
