package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/internal/jstest"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/rewardmodel/retrain"
)

// checkpointDirectory writes a checkpoint directory; the weights do not
// compress and take several chunks.
func checkpointDirectory(t testing.TB, seed uint64, size int) string {
	t.Helper()
	dir := t.TempDir()
	weights := make([]byte, size)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range weights {
		weights[i] = byte(random.Uint32())
	}
	for name, data := range map[string][]byte{
		"config.json": []byte(`{"model_type":"bert"}`), "model.safetensors": weights, "empty": nil, "sub/vocab.txt": []byte("a\nb\n"),
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return dir
}

func requireSameFiles(t testing.TB, want, got string) {
	t.Helper()
	a, err := registry.DescribeFiles(want)
	require.NoError(t, err)
	b, err := registry.DescribeFiles(got)
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// upload stores a directory and returns its record.
func upload(t testing.TB, r *registry.Registry, version, dir string) retrain.Model {
	t.Helper()
	files, err := r.Upload(jstest.Context(t), version, dir)
	require.NoError(t, err)
	return retrain.Model{Version: version, State: retrain.StatePromoted, Files: files}
}

const weightBytes = 3*registry.ChunkBytes + 17

func TestUploadAndDownload(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	dir := checkpointDirectory(t, 1, weightBytes)
	m := upload(t, r, "v1", dir)
	require.Len(t, m.Files, 4)
	require.EqualValues(t, weightBytes, m.Files["model.safetensors"].Size)
	require.NoError(t, r.Register(ctx, m))

	// A second upload changes nothing.
	before := jstest.Count(jstest.JetStream(t, q.Conn()), registry.StreamModels)
	require.Equal(t, m, upload(t, r, "v1", dir))
	require.Equal(t, before, jstest.Count(jstest.JetStream(t, q.Conn()), registry.StreamModels))
	s, err := jstest.JetStream(t, q.Conn()).Stream(ctx, registry.StreamModels)
	require.NoError(t, err)
	require.EqualValues(t, before, s.CachedInfo().State.LastSeq)

	to := filepath.Join(t.TempDir(), "models", "v1")
	require.NoError(t, r.Download(ctx, m, to))
	requireSameFiles(t, dir, to)
	require.NoError(t, r.Download(ctx, m, to), "is there")
	entries, err := os.ReadDir(filepath.Dir(to))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary directory remains")

	// A directory with other files than the registered ones is replaced.
	require.NoError(t, os.WriteFile(filepath.Join(to, "config.json"), []byte("{"), 0o600))
	require.NoError(t, r.Download(ctx, m, to))
	requireSameFiles(t, dir, to)

	// The NATS library reads the same.
	store, err := jstest.JetStream(t, q.Conn()).ObjectStore(ctx, registry.BucketModels)
	require.NoError(t, err)
	data, err := store.GetBytes(ctx, "v1/model.safetensors")
	require.NoError(t, err)
	file, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(file, data))

	// A registered version is never overwritten by another.
	_, err = r.Upload(ctx, "v1", checkpointDirectory(t, 2, weightBytes))
	require.ErrorIs(t, err, retrain.ErrExists)
	require.NoError(t, r.Download(ctx, m, filepath.Join(t.TempDir(), "again")))

	// An unregistered one is overwritten: it is the rest of a canceled upload.
	upload(t, r, "v2", dir)
	other := checkpointDirectory(t, 3, weightBytes)
	m2 := upload(t, r, "v2", other)
	to = filepath.Join(t.TempDir(), "v2")
	require.NoError(t, r.Download(ctx, m2, to))
	requireSameFiles(t, other, to)

	require.NoError(t, r.Remove(ctx, "v1"))
	require.NoError(t, r.Remove(ctx, "v1"))
	err = r.Download(ctx, m, filepath.Join(t.TempDir(), "gone"))
	require.ErrorIs(t, err, retrain.ErrDamaged)
	require.NoError(t, r.Download(ctx, m2, filepath.Join(t.TempDir(), "v2")), "another version stays")
	_, err = r.Model(ctx, "v1")
	require.NoError(t, err, "the record stays")
	require.NoError(t, r.Remove(ctx, "v2"))
	require.Zero(t, jstest.Count(jstest.JetStream(t, q.Conn()), registry.StreamModels), "nothing is left behind")

	_, err = r.Upload(ctx, "v3", filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = r.Upload(ctx, "v3", t.TempDir())
	require.ErrorContains(t, err, "no files")
	require.ErrorContains(t, r.Download(ctx, retrain.Model{Version: "v0", State: retrain.StateInitial}, to), "initial")
	evil := retrain.Model{Version: "v0", Files: map[string]retrain.File{"../x": {}}}
	require.ErrorIs(t, r.Download(ctx, evil, to), retrain.ErrDamaged)
}

// An upload that is interrupted at any moment can be repeated with the normal result.
func TestInterruptedUpload(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	dir := checkpointDirectory(t, 4, 40*registry.ChunkBytes)
	cut := 0
	for i := range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*i)*2*time.Millisecond)
		_, err := r.Upload(ctx, "v1", dir)
		cancel()
		if err != nil {
			cut++
		}
	}
	require.NotZero(t, cut)
	m := upload(t, r, "v1", dir)
	to := filepath.Join(t.TempDir(), "v1")
	require.NoError(t, r.Download(jstest.Context(t), m, to))
	requireSameFiles(t, dir, to)
}

// Chunks of a killed process are removed once they are old.
func TestSweep(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	m := upload(t, r, "v1", checkpointDirectory(t, 5, weightBytes))
	for range 3 {
		_, err := jstest.JetStream(t, q.Conn()).Publish(ctx, registry.SubjectChunks+"orphan", []byte("left behind"))
		require.NoError(t, err)
	}
	before := jstest.Count(jstest.JetStream(t, q.Conn()), registry.StreamModels)
	require.NoError(t, r.RemoveOrphans(ctx, time.Hour))
	require.Equal(t, before, jstest.Count(jstest.JetStream(t, q.Conn()), registry.StreamModels), "a writer may still be active")
	require.NoError(t, r.RemoveOrphans(ctx, 0))
	require.Equal(t, before-3, jstest.Count(jstest.JetStream(t, q.Conn()), registry.StreamModels))
	require.NoError(t, r.Download(ctx, m, filepath.Join(t.TempDir(), "v1")))
}

// Files that no record names, as of a training run that died before it registered its candidate, are removed once they
// are old.
func TestSweepOfAbandonedFiles(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	r := openRegistry(t, queuetest.Open(t, queuetest.Config(t)))
	promoted := upload(t, r, "v1", checkpointDirectory(t, 5, weightBytes))
	require.NoError(t, r.Register(ctx, promoted))
	upload(t, r, "org/v2", checkpointDirectory(t, 6, 10))
	upload(t, r, "v3", checkpointDirectory(t, 7, 10))
	require.NoError(t, r.Register(ctx, retrain.Model{Version: "v3", State: retrain.StateRejected}))
	require.NoError(t, r.PutObject(ctx, "holdout", []byte("{}")))
	stored := func(version string) bool {
		info, err := r.ObjectInfo(ctx, registry.Token(version)+"/model.safetensors")
		require.NoError(t, err)
		return info != nil
	}
	require.NoError(t, r.RemoveAbandoned(ctx, "v4", time.Hour))
	require.True(t, stored("org/v2"), "it may be about to be registered")
	require.True(t, stored("v3"))
	require.NoError(t, r.RemoveAbandoned(ctx, "org/v2", 0))
	require.True(t, stored("org/v2"), "its upload is repeated")
	require.False(t, stored("v3"))
	require.NoError(t, r.RemoveAbandoned(ctx, "v4", 0))
	require.False(t, stored("org/v2"))
	require.NoError(t, r.Download(ctx, promoted, filepath.Join(t.TempDir(), "v1")))
	_, err := r.GetObject(ctx, "holdout")
	require.NoError(t, err)
}

// A damaged object never becomes a directory.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, q *queue.Queue, chunk *jetstream.RawStreamMsg){
		"a byte": func(t *testing.T, q *queue.Queue, chunk *jetstream.RawStreamMsg) {
			s, err := jstest.JetStream(t, q.Conn()).Stream(t.Context(), registry.StreamModels)
			require.NoError(t, err)
			require.NoError(t, s.SecureDeleteMsg(t.Context(), chunk.Sequence))
			chunk.Data[7] ^= 1
			_, err = jstest.JetStream(t, q.Conn()).Publish(t.Context(), chunk.Subject, chunk.Data)
			require.NoError(t, err)
		},
		"a chunk is missing": func(t *testing.T, q *queue.Queue, chunk *jetstream.RawStreamMsg) {
			s, err := jstest.JetStream(t, q.Conn()).Stream(t.Context(), registry.StreamModels)
			require.NoError(t, err)
			require.NoError(t, s.SecureDeleteMsg(t.Context(), chunk.Sequence))
		},
		"a chunk too many": func(t *testing.T, q *queue.Queue, chunk *jetstream.RawStreamMsg) {
			_, err := jstest.JetStream(t, q.Conn()).Publish(t.Context(), chunk.Subject, chunk.Data)
			require.NoError(t, err)
		},
		"another file of that name": func(t *testing.T, q *queue.Queue, _ *jetstream.RawStreamMsg) {
			store, err := jstest.JetStream(t, q.Conn()).ObjectStore(t.Context(), registry.BucketModels)
			require.NoError(t, err)
			_, err = store.PutBytes(t.Context(), "v1/model.safetensors", []byte("other"))
			require.NoError(t, err)
		},
		"deleted": func(t *testing.T, q *queue.Queue, _ *jetstream.RawStreamMsg) {
			store, err := jstest.JetStream(t, q.Conn()).ObjectStore(t.Context(), registry.BucketModels)
			require.NoError(t, err)
			require.NoError(t, store.Delete(t.Context(), "v1/model.safetensors"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := jstest.Context(t)
			q := queuetest.Open(t, queuetest.Config(t))
			r := openRegistry(t, q)
			dir := checkpointDirectory(t, 6, registry.ChunkBytes/2)
			m := upload(t, r, "v1", dir)
			require.NoError(t, r.Register(ctx, m))
			info, err := r.ObjectInfo(ctx, "v1/model.safetensors")
			require.NoError(t, err)
			s, err := jstest.JetStream(t, q.Conn()).Stream(ctx, registry.StreamModels)
			require.NoError(t, err)
			chunk, err := s.GetLastMsgForSubject(ctx, registry.SubjectChunks+info.NUID)
			require.NoError(t, err)
			damage(t, q, chunk)

			to := filepath.Join(t.TempDir(), "v1")
			err = r.Download(ctx, m, to)
			require.ErrorIs(t, err, retrain.ErrDamaged)
			require.ErrorContains(t, err, "model.safetensors")
			require.NoDirExists(t, to)
			entries, err := os.ReadDir(filepath.Dir(to))
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// A flipped byte on disk is detected by the server or the registry.
func TestDamageOnDisk(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	dir := checkpointDirectory(t, 7, weightBytes)
	m := upload(t, openRegistry(t, q), "v1", dir)
	queuetest.Close(t, q)
	weights, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	blocks, err := filepath.Glob(filepath.Join(cfg.Server.DataDir, "nats", "jetstream", "*", "streams", registry.StreamModels, "msgs", "*.blk"))
	require.NoError(t, err)
	flipped := 0
	for _, path := range blocks {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if at := bytes.Index(data, weights[registry.ChunkBytes+100:registry.ChunkBytes+164]); at >= 0 {
			data[at] ^= 1
			require.NoError(t, os.WriteFile(path, data, 0o600))
			flipped++
		}
	}
	require.Equal(t, 1, flipped)

	q = queuetest.Open(t, cfg)
	to := filepath.Join(t.TempDir(), "v1")
	err = openRegistry(t, q).Download(jstest.Context(t), m, to)
	require.ErrorIs(t, err, retrain.ErrDamaged)
	require.ErrorContains(t, err, "model.safetensors")
	require.NoDirExists(t, to)
}

func TestProcessesDownloadToOneDirectory(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	r := openRegistry(t, queuetest.Open(t, queuetest.Config(t)))
	dir := checkpointDirectory(t, 8, weightBytes)
	m := upload(t, r, "v1", dir)
	to := filepath.Join(t.TempDir(), "v1")
	require.NoError(t, os.Mkdir(to, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(to, "rest"), nil, 0o600))
	old := filepath.Join(filepath.Dir(to), ".v1.new-killed")
	require.NoError(t, os.Mkdir(old, 0o755))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := r.Download(ctx, m, to); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	requireSameFiles(t, dir, to)
	entries, err := os.ReadDir(filepath.Dir(to))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestFullBucketError(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Streams.ModelsMaxBytes = 2 * registry.ChunkBytes
	q := queuetest.Open(t, cfg)
	r := openRegistry(t, q)
	_, err := r.Upload(jstest.Context(t), "v1", checkpointDirectory(t, 9, weightBytes))
	require.ErrorContains(t, err, "maximum bytes")
	require.ErrorContains(t, err, "enlarge")
	require.NoError(t, r.Remove(jstest.Context(t), "v1"))
	require.Eventually(t, func() bool { return jstest.Count(jstest.JetStream(t, q.Conn()), registry.StreamModels) == 0 }, jstest.Timeout, 5*time.Millisecond)
}

func BenchmarkModelTransfer(b *testing.B) {
	r := openRegistry(b, queuetest.Open(b, queuetest.Config(b)))
	dir := checkpointDirectory(b, 10, 90<<20)
	b.Run("upload", func(b *testing.B) {
		b.SetBytes(90 << 20)
		for i := range b.N {
			upload(b, r, fmt.Sprint("v", i), dir)
			b.StopTimer()
			require.NoError(b, r.Remove(jstest.Context(b), fmt.Sprint("v", i)))
			b.StartTimer()
		}
	})
	b.Run("download", func(b *testing.B) {
		b.SetBytes(90 << 20)
		m := upload(b, r, "v", dir)
		for i := range b.N {
			require.NoError(b, r.Download(jstest.Context(b), m, filepath.Join(b.TempDir(), fmt.Sprint(i))))
		}
	})
}
