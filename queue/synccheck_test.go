package queue

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
)

// The accounts of docs/nats.md, with which assay detects the sync mode of a server.
const seenAccounts = `
listen: 127.0.0.1:-1
jetstream { store_dir: %q, max_file_store: 64GB, sync_interval: %q }
system_account: SYS
accounts {
  SYS {
    users: [ { user: admin, password: admin } ]
    exports: [ { service: "$SYS.REQ.SERVER.PING.JSZ", response_type: stream } ]
  }
  ASSAY {
    jetstream: enabled
    users: [ { user: assay, password: assay } ]
    imports: [ { service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } } ]
  }
}
`

// assay reports the sync setting of an external server.
func TestTheSyncOfAnExternalServerIsNamed(t *testing.T) {
	t.Parallel()
	const unknown, weaker = "cannot read the sync setting of the NATS servers", "acknowledges before it syncs"
	configured := func(interval string) *server.Options {
		file := filepath.Join(t.TempDir(), "nats.conf")
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, seenAccounts, t.TempDir(), interval), 0o600))
		opts, err := server.ProcessConfigFile(file)
		require.NoError(t, err)
		return opts
	}
	denied := &server.Options{Users: []*server.User{{Username: "assay", Password: "assay", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Deny: []string{"$SYS.>"}}}}}}
	for name, tc := range map[string]struct {
		opts *server.Options
		says string
		not  []string
	}{
		"default":       {configured("2m"), weaker, []string{unknown}},
		"always":        {configured("always"), "", []string{unknown, weaker}},
		"not exported":  {&server.Options{SyncAlways: true}, unknown, []string{weaker}},
		"no permission": {denied, unknown, []string{weaker, "Violation"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := jstest.Server(t, tc.opts)
			cfg := testConfig(t)
			cfg.Conn.URL = "nats://assay:assay@" + srv.Addr().String()
			var log bytes.Buffer
			q, err := Open(t.Context(), cfg, zerolog.New(&log), prometheus.NewRegistry())
			require.NoError(t, err)
			closeQueue(t, q)
			require.Contains(t, log.String(), tc.says)
			for _, not := range tc.not {
				require.NotContains(t, log.String(), not)
			}
		})
	}
}
