package packedweights

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var testDeviation = Deviation{Mean: 0.001, Max: 0.01, Texts: 36}

func testFile(size int) (File, []byte) {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	weights := make([]byte, size)
	for i := range weights {
		weights[i] = byte(rng.Uint32())
	}
	return File{Key: [32]byte{1, 2, 3}, Precision: "int8", Size: size}, weights
}

// openClose opens a file and closes it again; its weights must be want.
func openClose(t *testing.T, dir Dir, f File, want []byte) error {
	t.Helper()
	m, err := dir.Open(f)
	if err != nil {
		return err
	}
	if !bytes.Equal(m.Weights, want) || m.Deviation != testDeviation {
		t.Error("other weights, or another deviation")
	}
	return m.Close()
}

// TestOpen writes a file, and damages it in every way: what is not the whole file of that key is not used.
func TestOpen(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "a", "b"))
	f, weights := testFile(1000)
	if err := dir.Write(f, weights, testDeviation); err != nil {
		t.Fatal(err)
	}
	if err := openClose(t, dir, f, weights); err != nil {
		t.Fatal(err)
	}
	if err := openClose(t, dir, File{f.Key, f.Precision, f.Size - 64}, weights); !errors.Is(err, ErrInvalid) {
		t.Errorf("another size: %v", err)
	}
	if err := openClose(t, dir, File{[32]byte{9}, f.Precision, f.Size}, weights); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key: %v", err)
	}
	if err := openClose(t, "", f, weights); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
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
		if err := openClose(t, dir, f, weights); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range whole {
		changed := slices.Clone(whole)
		changed[i] ^= 1 << (i % 8)
		damaged("a bit", changed)
	}
	for _, n := range []int{0, 1, headerSize - 1, headerSize, len(whole) - 1} {
		damaged("cut off", whole[:n])
	}
	damaged("longer", append(slices.Clone(whole), 0))
	damaged("empty", make([]byte, len(whole)))
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := openClose(t, dir, f, weights); !errors.Is(err, ErrInvalid) {
		t.Errorf("a pipe: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	file, weights := testFile(200)
	f.Add(append(header(file.Key, testDeviation, weights), weights...))
	f.Add(make([]byte, headerSize+200))
	f.Fuzz(func(t *testing.T, data []byte) {
		weights, deviation, err := file.parse(data)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Error(err)
			}
			return
		}
		if !bytes.Equal(append(header(file.Key, deviation, weights), weights...), data) {
			t.Error("a file with two meanings")
		}
	})
}

// TestWriters has several processes start at once: each finds no file, or the whole one.
func TestWriters(t *testing.T) {
	dir := Dir(t.TempDir())
	f, weights := testFile(1 << 20)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := dir.Write(f, weights, testDeviation); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			for range 50 {
				if err := openClose(t, dir, f, weights); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestPrune keeps only the files that were used last.
func TestPrune(t *testing.T) {
	dir := Dir(t.TempDir())
	f, weights := testFile(100)
	first := File{Precision: "int8", Size: f.Size}
	for i := range maxFiles + 2 {
		f.Key, f.Precision = [32]byte{byte(i)}, []string{"int8", "bf16"}[i%2]
		if err := dir.Write(f, weights, testDeviation); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-100) * time.Hour)
		if err := os.Chtimes(dir.path(f), old, old); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // the first is used again
			if err := openClose(t, dir, first, weights); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	leftover := filepath.Join(string(dir), ".other.int8.tmp-1") // of a process that was killed
	if err := errors.Join(os.WriteFile(leftover, nil, 0o600), os.Chtimes(leftover, old, old), dir.Write(f, weights, testDeviation)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(string(dir))
	if err != nil || len(entries) != maxFiles {
		t.Fatalf("%d files, want %d: %v", len(entries), maxFiles, err)
	}
	if _, err := os.Stat(dir.path(first)); err != nil {
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

// TestUntrusted neither reads nor writes where another user can write.
func TestUntrusted(t *testing.T) {
	dir := Dir(t.TempDir())
	f, weights := testFile(100)
	write := func() error { return dir.Write(f, weights, testDeviation) }
	open := func() error { return openClose(t, dir, f, weights) }
	refused := func(name string, err error) {
		t.Helper()
		if _, is := errors.AsType[*UntrustedError](err); !is {
			t.Errorf("%s: %v", name, err)
		}
	}
	change := func(path string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(write(), open()); err != nil {
		t.Fatal(err)
	}
	change(dir.path(f), 0o606)
	refused("a file that all can write", open())
	if err := errors.Join(write(), open()); err != nil {
		t.Errorf("is not made again: %v", err)
	}
	change(string(dir), 0o777|fs.ModeSticky)
	refused("reading in a directory that all can write", open())
	refused("writing there", write())
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
