package doctor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/embedded"
)

func TestDataDir(t *testing.T) {
	const gib = 1 << 30
	good := dataDir{path: "/data", exists: true, mode: os.ModeDir | 0o700, owner: 7, user: 7, system: fileSystem{free: 100 * gib}, fsync: time.Millisecond}
	with := func(change func(*dataDir)) dataDir {
		d := good
		change(&d)
		return d
	}
	for name, tc := range map[string]struct {
		dataDir
		external, relaxed bool
		outcome
	}{
		"good":              {good, false, false, outcome{OK, []string{"/data is writable; 100 GiB free; a write with fsync takes 1ms"}}},
		"can be created":    {with(func(d *dataDir) { d.exists, d.mode, d.owner = false, 0, -1 }), false, false, outcome{OK, []string{"can be created"}}},
		"read-only":         {with(func(d *dataDir) { d.writeErr = os.ErrPermission }), false, false, outcome{Error, []string{"permission denied", "user 7"}}},
		"in use":            {with(func(d *dataDir) { d.holder = "4711" }), false, false, outcome{Warning, []string{"4711"}}},
		"readable by all":   {with(func(d *dataDir) { d.mode = os.ModeDir | 0o755 }), false, false, outcome{Warning, []string{"0755", "chmod 700 /data"}}},
		"another owner":     {with(func(d *dataDir) { d.owner = 0 }), false, false, outcome{Warning, []string{"belongs to the user 0"}}},
		"full":              {with(func(d *dataDir) { d.system.free = 1 << 20 }), true, false, outcome{Error, []string{"1.0 MiB"}}},
		"less than streams": {with(func(d *dataDir) { d.system.free = 20 * gib }), false, false, outcome{Warning, []string{"20 GiB", "grow by 64 GiB", "--nats-max-store"}}},
		"streams exist":     {with(func(d *dataDir) { d.system.free, d.used = 20*gib, 50*gib }), false, false, outcome{OK, nil}},
		"external streams":  {with(func(d *dataDir) { d.system.free = 20 * gib }), true, false, outcome{OK, nil}},
		"unknown space":     {with(func(d *dataDir) { d.system.free = -1 }), false, false, outcome{OK, []string{"unknown free space"}}},
		"in memory":         {with(func(d *dataDir) { d.system.volatile = "is in memory" }), false, false, outcome{Warning, []string{"is in memory", "labels"}}},
		"in memory, models": {with(func(d *dataDir) { d.system.volatile = "is in memory" }), true, false, outcome{OK, nil}},
		"network":           {with(func(d *dataDir) { d.system.network = "NFS" }), false, false, outcome{Warning, []string{"NFS"}}},
		"slow":              {with(func(d *dataDir) { d.fsync = 50 * time.Millisecond }), false, false, outcome{Warning, []string{"at most 20 messages per second"}}},
		"slow, relaxed":     {with(func(d *dataDir) { d.fsync = 50 * time.Millisecond }), false, true, outcome{OK, nil}},
		"another clock":     {with(func(d *dataDir) { d.ahead = -time.Hour }), false, false, outcome{Warning, []string{"1h0m0s behind"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var maxStore int64 = 64 * gib
			if tc.external {
				maxStore = 0
			}
			tc.of(t, tc.findings(maxStore, !tc.relaxed))
		})
	}
}

func TestReadDataDir(t *testing.T) {
	parent := t.TempDir()
	absent := filepath.Join(parent, "a", "b")
	d := readDataDir(absent)
	require.NoError(t, d.writeErr)
	require.False(t, d.exists)
	require.Positive(t, d.fsync)
	require.Less(t, d.ahead.Abs(), maxSkew)
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing is left")

	dir := filepath.Join(parent, "data")
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", DataDir: dir}, nil, zerolog.Nop())
	require.NoError(t, err)
	d = readDataDir(dir)
	require.NoError(t, d.writeErr)
	require.True(t, d.exists)
	require.NotEmpty(t, d.holder)
	require.Equal(t, os.Getuid(), d.owner)
	require.EqualValues(t, 0o700, d.mode.Perm())
	require.Positive(t, d.system.free)
	require.NoError(t, server.Shutdown())
	require.Empty(t, readDataDir(dir).holder)

	file := filepath.Join(parent, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, readDataDir(file).writeErr, "not a directory")
	require.Error(t, readDataDir(filepath.Join(file, "below")).writeErr)
}
