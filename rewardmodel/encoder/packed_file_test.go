package encoder

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sugarme/gotch/ts"
	"golang.org/x/sys/unix"

	"assay/rewardmodel"
)

func testFile(size int) (packedFile, []byte) {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	f, content := packedFile{key: [32]byte{1, 2, 3}, precision: Int8, size: size, moved: movement{mean: 0.001, largest: 0.01, texts: 36}}, make([]byte, size)
	for i := range content {
		content[i] = byte(rng.Uint32())
	}
	return f, content
}

// TestPackedFile writes a file, and damages it in every way: what is not the whole file of that key is not used.
func TestPackedFile(t *testing.T) {
	dir := packedDir(filepath.Join(t.TempDir(), "a", "b"))
	f, content := testFile(1000)
	if err := dir.write(f, content); err != nil {
		t.Fatal(err)
	}
	open := func(key [32]byte, size int) (packedFile, error) {
		f := packedFile{key: key, precision: Int8, size: size}
		mapped, got, err := dir.open(&f)
		if err == nil {
			if !bytes.Equal(got, content) {
				t.Error("another content")
			}
			err = unix.Munmap(mapped)
		}
		return f, err
	}
	if got, err := open(f.key, f.size); err != nil || got != f {
		t.Fatalf("%+v, %v; want %+v", got, err, f)
	}
	if _, err := open(f.key, f.size-64); !errors.Is(err, errPackedFile) {
		t.Errorf("another size: %v", err)
	}
	if _, err := open([32]byte{9}, f.size); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key: %v", err)
	}
	path := dir.path(f)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(name string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := open(f.key, f.size); !errors.Is(err, errPackedFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range whole {
		changed := slices.Clone(whole)
		changed[i] ^= 1 << (i % 8)
		damaged("a bit", changed)
	}
	for _, n := range []int{0, 1, packedHeader - 1, packedHeader, len(whole) - 1} {
		damaged("cut off", whole[:n])
	}
	damaged("longer", append(slices.Clone(whole), 0))
	damaged("empty", make([]byte, len(whole)))
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := open(f.key, f.size); !errors.Is(err, errPackedFile) {
		t.Errorf("a pipe: %v", err)
	}
}

func FuzzPackedFile(f *testing.F) {
	file, content := testFile(200)
	f.Add(append(file.header(content), content...))
	f.Add(make([]byte, packedHeader+200))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := packedFile{key: file.key, size: file.size}
		content, err := got.read(data)
		if err != nil {
			if !errors.Is(err, errPackedFile) {
				t.Error(err)
			}
			return
		}
		if !bytes.Equal(append(got.header(content), content...), data) {
			t.Error("a file with two meanings")
		}
	})
}

// TestPackedFileWriters has several processes start at once: each finds no file, or the whole one.
func TestPackedFileWriters(t *testing.T) {
	dir := packedDir(t.TempDir())
	want, content := testFile(1 << 20)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := dir.write(want, content); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			for range 50 {
				f := packedFile{key: want.key, precision: Int8, size: want.size}
				mapped, got, err := dir.open(&f)
				switch {
				case errors.Is(err, fs.ErrNotExist):
				case err != nil:
					t.Error(err)
				default:
					if !bytes.Equal(got, content) {
						t.Error("another content")
					}
					if err := unix.Munmap(mapped); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
}

// TestPackedFilesAreFew keeps only the files that were used last.
func TestPackedFilesAreFew(t *testing.T) {
	dir := packedDir(t.TempDir())
	f, content := testFile(100)
	for i := range packedKept + 2 {
		f.key, f.precision = [32]byte{byte(i)}, []Precision{Int8, BF16}[i%2]
		if err := dir.write(f, content); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-100) * time.Hour)
		if err := os.Chtimes(dir.path(f), old, old); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // the first is used again
			first := packedFile{precision: Int8, size: f.size}
			mapped, _, err := dir.open(&first)
			if err := errors.Join(err, unix.Munmap(mapped)); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(string(dir))
	if err != nil || len(entries) != packedKept {
		t.Fatalf("%d files, want %d: %v", len(entries), packedKept, err)
	}
	if _, err := os.Stat(dir.path(packedFile{precision: Int8})); err != nil {
		t.Error(err)
	}
}

// TestTrustOwner accepts what only root and the user can write.
func TestTrustOwner(t *testing.T) {
	for _, c := range []struct {
		name           string
		user, uid, gid int
		mode           fs.FileMode
		trusted        bool
	}{
		{"own", 1000, 1000, 1000, 0o600, true},
		{"own, readable", 1000, 1000, 100, 0o644, true},
		{"of the image", 65532, 0, 0, 0o755 | fs.ModeDir, true},
		{"a volume of Kubernetes", 65532, 0, 65532, 0o775 | fs.ModeDir | fs.ModeSetgid, true},
		{"own, in a volume with fsGroup", 65532, 65532, 65532, 0o660, true},
		{"a shared group", 1000, 1000, 100, 0o660, false},
		{"a group of root", 1000, 0, 0, 0o664, false},
		{"everybody", 1000, 1000, 1000, 0o606, false},
		{"a directory as /tmp", 1000, 0, 0, 0o777 | fs.ModeDir | fs.ModeSticky, false},
		{"another user", 1000, 1001, 1000, 0o600, false},
		{"another user, for root", 0, 1001, 0, 0o600, false},
		{"root, for root", 0, 0, 0, 0o660, true},
	} {
		err := trustOwner("file", c.user, c.uid, c.gid, c.mode)
		if (err == nil) != c.trusted {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestPackedFileOfOthers neither reads nor writes where another user can write.
func TestPackedFileOfOthers(t *testing.T) {
	dir := packedDir(t.TempDir())
	f, content := testFile(100)
	open := func() error {
		f := packedFile{key: f.key, precision: f.precision, size: f.size}
		mapped, _, err := dir.open(&f)
		if err == nil {
			err = unix.Munmap(mapped)
		}
		return err
	}
	refused := func(name string, err error) {
		t.Helper()
		if _, is := errors.AsType[*untrusted](err); !is {
			t.Errorf("%s: %v", name, err)
		}
	}
	change := func(path string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(dir.write(f, content), open()); err != nil {
		t.Fatal(err)
	}
	change(dir.path(f), 0o606)
	refused("a file that all can write", open())
	if err := errors.Join(dir.write(f, content), open()); err != nil {
		t.Errorf("is not made again: %v", err)
	}
	change(string(dir), 0o777|fs.ModeSticky)
	refused("reading in a directory that all can write", open())
	refused("writing there", dir.write(f, content))
	change(string(dir), 0o700)
	if os.Geteuid() != 0 {
		return
	}
	for _, path := range []string{dir.path(f), string(dir)} {
		if err := os.Chown(path, 12345, -1); err != nil {
			t.Fatal(err)
		}
		refused("another owner of "+path, open())
		if err := os.Chown(path, 0, -1); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.Rename(dir.path(f), outside), os.Symlink(outside, dir.path(f))); err != nil {
		t.Fatal(err)
	}
	if open() == nil {
		t.Error("a link out of the directory is followed")
	}
}

// TestPackedLoad loads the shipped model without a file, while it writes one, from it, and from damaged ones: the scores
// have the same bits.
func TestPackedLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("loads the shipped model several times")
	}
	for _, precision := range []Precision{Int8, BF16} {
		t.Run(string(precision), func(t *testing.T) { packedLoad(t, precision) })
	}
}

func packedLoad(t *testing.T, precision Precision) {
	m, tok := shippedInPanels(t, newRuntime(t), precision)
	var batch []rewardmodel.Sequence
	for _, text := range int8CheckTexts {
		batch = append(batch, rewardmodel.Sequence{IDs: tok.Frame(tok.IDs(text))})
	}
	want, err := m.Margins(batch)
	if err != nil {
		t.Fatal(err)
	}
	numerics, err := m.Numerics()
	if err != nil {
		t.Fatal(err)
	}
	notDir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var warned error
	load := func(name, dir string, limit float64, mapped bool) {
		t.Helper()
		warned = nil
		r, err := NewRuntime(RuntimeOptions{Threads: 2, Device: "cpu", PackedDir: dir, PrecisionLimit: limit, Warn: func(err error) { warned = err }})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		before := ts.LiveTensors.Load()
		m, err := r.Load(openCheckpoint(t, shippedModel), precision)
		if limit != 0 && precision == Int8 {
			if !errors.Is(err, ErrPrecision) {
				t.Errorf("%s: %v", name, err)
			}
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m != nil {
			got, err := m.Margins(batch)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: other scores, or %v", name, err)
			}
			if id, err := m.Numerics(); err != nil || id != numerics {
				t.Errorf("%s: numerics %s, %v; want %s", name, id, err, numerics)
			}
			if (m.mapped != nil) != mapped {
				t.Errorf("%s: mapped is %v", name, !mapped)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if now := ts.LiveTensors.Load(); now > before {
			t.Errorf("%s: %d tensors live after Close, %d at the start", name, now, before)
		}
	}
	load("no directory", filepath.Join(notDir, "weights"), 0, false)
	load("a directory that cannot be written", "/proc/assay", 0, false)
	load("first", dir, 0, true)
	load("second", dir, 0, true)
	if precision == Int8 {
		load("a stricter limit", dir, 1e-9, false)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*."+string(precision)))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	if err := os.Truncate(files[0], 5000); err != nil {
		t.Fatal(err)
	}
	load("cut off", dir, 0, true)
	load("repaired", dir, 0, true)
	if warned != nil {
		t.Errorf("warned of %v", warned)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	load("a directory that all can write", dir, 0, false)
	if warned == nil || !strings.Contains(warned.Error(), dir+" is writable by all users") {
		t.Errorf("warned of %v", warned)
	}
}
