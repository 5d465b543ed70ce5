package checkpoint

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// directory opens files only inside a checkpoint directory: os.Root rejects names
// and symbolic links that lead outside.
type directory struct {
	root *os.Root
	sub  string // the checkpoint within root, "." for root itself

	summing sync.Mutex
	sums    map[string]summed // by name
}

// openDirectory opens dir. In the cache of a Hugging Face hub a checkpoint is
// <repository>/snapshots/<revision>, whose files are links to
// <repository>/blobs; there the repository is the root.
func openDirectory(dir string) (*directory, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	top, sub := real, "."
	if snapshots := filepath.Dir(real); filepath.Base(snapshots) == "snapshots" {
		repository := filepath.Dir(snapshots)
		if info, err := os.Stat(filepath.Join(repository, "blobs")); err == nil && info.IsDir() {
			top, sub = repository, path.Join("snapshots", filepath.Base(real))
		}
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	return &directory{root: root, sub: sub, sums: map[string]summed{}}, nil
}

// open opens a file by its plain name. It never blocks on a pipe or device.
func (f *directory) open(name string) (*os.File, int64, error) {
	if !plainName(name) {
		return nil, 0, fmt.Errorf("%.80q is not the name of a file in the directory: %w", name, ErrDamaged)
	}
	info, err := f.root.Stat(path.Join(f.sub, name))
	if err != nil {
		return nil, 0, f.explain(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file: %w", name, ErrDamaged)
	}
	file, err := f.root.Open(path.Join(f.sub, name))
	if err != nil {
		return nil, 0, f.explain(name, err)
	}
	return file, info.Size(), nil
}

// explain describes a failure to open in one line.
func (f *directory) explain(name string, err error) error {
	info, lerr := f.root.Lstat(path.Join(f.sub, name))
	if lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symbolic link that is broken or leads outside the directory; copy the file into it: %w", name, ErrDamaged)
	}
	return err
}

// read returns a whole small file.
func (f *directory) read(name string, limit int64) ([]byte, error) {
	file, size, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > limit {
		return nil, fmt.Errorf("%s is %d bytes long; the maximum is %d: %w", name, size, limit, ErrDamaged)
	}
	return io.ReadAll(io.LimitReader(file, limit))
}

// has reports whether the directory has an entry of that name, of any kind.
func (f *directory) has(name string) bool {
	_, err := f.root.Lstat(path.Join(f.sub, name))
	return err == nil
}

// names lists the directory.
func (f *directory) names() ([]string, error) {
	dir, err := f.root.Open(f.sub)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

func (f *directory) close() error { return f.root.Close() }

// plainName reports whether name has no path, so that it is directly in a
// directory.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 &&
		!strings.ContainsAny(name, "/\\\x00") && filepath.IsLocal(name)
}
