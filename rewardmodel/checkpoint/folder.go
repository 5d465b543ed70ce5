package checkpoint

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// folder opens files of a checkpoint folder and nothing outside it: os.Root
// refuses names and symbolic links that lead out.
type folder struct {
	root *os.Root
	sub  string // the checkpoint within root, "." for root itself
}

// openFolder opens dir. In the cache of a Hugging Face hub a checkpoint is
// <repository>/snapshots/<revision>, whose files are links to
// <repository>/blobs; there the repository is the folder not to leave.
func openFolder(dir string) (*folder, error) {
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
	return &folder{root: root, sub: sub}, nil
}

// open opens a file by its plain name. It never blocks on a pipe or device.
func (f *folder) open(name string) (*os.File, int64, error) {
	if !plainName(name) {
		return nil, 0, fmt.Errorf("%.80q is not the name of a file in the folder: %w", name, ErrDamaged)
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

// explain turns a failure to open into one line.
func (f *folder) explain(name string, err error) error {
	info, lerr := f.root.Lstat(path.Join(f.sub, name))
	if lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symbolic link that leads nowhere or out of the folder; copy the file in: %w", name, ErrDamaged)
	}
	return err
}

// read returns a whole small file.
func (f *folder) read(name string, limit int64) ([]byte, error) {
	file, size, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > limit {
		return nil, fmt.Errorf("%s is %d bytes long; at most %d make sense: %w", name, size, limit, ErrDamaged)
	}
	return io.ReadAll(io.LimitReader(file, limit))
}

// has tells whether the folder holds the name, whatever it is.
func (f *folder) has(name string) bool {
	_, err := f.root.Lstat(path.Join(f.sub, name))
	return err == nil
}

// names lists the folder.
func (f *folder) names() ([]string, error) {
	dir, err := f.root.Open(f.sub)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

func (f *folder) close() error { return f.root.Close() }

// plainName tells whether name is that of a file directly in a folder.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 &&
		!strings.ContainsAny(name, "/\\\x00") && filepath.IsLocal(name)
}
