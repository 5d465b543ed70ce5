package labels_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/internal/jstest"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// storedBytes are the files of the store, with the number of their bytes.
func storedBytes(t *testing.T, dir string, streams ...string) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, stream := range streams {
			if strings.Contains(path, "/"+stream+"/") {
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				name, err := filepath.Rel(dir, path)
				require.NoError(t, err)
				sizes[name] = len(data)
			}
		}
		return nil
	}))
	require.NotEmpty(t, sizes)
	return sizes
}

// flipped copies a data directory and flips one bit of a file.
func flipped(t *testing.T, dir, name string, at int, bit uint) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "flipped")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	path := filepath.Join(to, name)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[at] ^= 1 << bit
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return to
}

// What a process reads of a store in which one bit is flipped: each label is exactly
// as it was stored, or it is missing and the damage is reported.
func TestOneFlippedBit(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	labelstest.Accepts(t, q.Labels(), 12, 0, labelstest.Some(0, 12)...)
	labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("r1", bag.Violation))
	_, err := q.Labels().Erase(t.Context(), "r11")
	require.NoError(t, err)
	registry, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	salt, err := registry.HoldoutSalt(t.Context())
	require.NoError(t, err)
	stored := labelstest.Records(t, q.Labels())
	queuetest.Close(t, q)

	const blocks = "nats/jetstream/$G/streams/ASSAY_FEEDBACK/msgs/1.blk"
	const salts = "nats/jetstream/$G/streams/KV_ASSAY_STATE/msgs/1.blk"
	sizes := storedBytes(t, cfg.Server.DataDir, "ASSAY_FEEDBACK", "KV_ASSAY_STATE")
	random := rand.New(rand.NewPCG(1, 2))
	type flip struct {
		name string
		at   int
	}
	flips := []flip{{blocks, 0}, {blocks, 4}, {blocks, 20}, {blocks, 24}, {blocks, sizes[blocks] - 1}, {salts, 2}, {salts, sizes[salts] / 2}}
	for _, name := range slices.Sorted(maps.Keys(sizes)) { // in a fixed order, for the random source
		if name != blocks {
			flips = append(flips, flip{name, random.IntN(sizes[name])})
		}
	}
	for range 4 {
		flips = append(flips, flip{blocks, random.IntN(sizes[blocks])})
	}
	for _, f := range flips {
		bit := uint(random.IntN(8))
		t.Run(fmt.Sprintf("%s/%d/%d", strings.ReplaceAll(f.name, "/", "_"), f.at, bit), func(t *testing.T) {
			t.Parallel() // most of the time it waits for the index
			damaged := cfg
			damaged.Server.DataDir = flipped(t, cfg.Server.DataDir, f.name, f.at, bit)
			requireStoredOrReported(t, damaged, stored, salt)
		})
	}
}

func requireStoredOrReported(t *testing.T, cfg queue.Config, stored map[string]feedback.Stored, salt []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	metrics := prometheus.NewRegistry()
	q, err := queue.Open(ctx, cfg, zerolog.Nop(), metrics)
	require.NoError(t, err)
	defer queuetest.Close(t, q)
	read := labelstest.Records(t, q.Labels())
	for key, record := range read {
		require.Equal(t, stored[key], record)
	}
	verified, err := q.Labels().Verify(ctx)
	require.NoError(t, err)
	require.Equal(t, len(read), verified.Labels)
	reported := make(chan queue.DamagedRecord, 100)
	q.OnDamage(func(r queue.DamagedRecord) { reported <- r })
	if len(read) < len(stored) || !q.Labels().Index().Erased(feedback.HashOf("r11")) {
		require.NotEmpty(t, reported)
		require.NotZero(t, verified.DamagedCount)
	}
	registry, err := q.OpenRegistry(ctx)
	require.NoError(t, err)
	short, stop := context.WithTimeout(ctx, 5*time.Second) // an error is accepted
	defer stop()
	now, err := registry.HoldoutSalt(short)
	if err == nil {
		require.Equal(t, salt, now)
	}
}
