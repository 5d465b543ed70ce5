package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/rewardmodel/retrain"
)

// leftoverAge is when the directory of a download that was killed is removed. A live
// download writes to it all the time.
const leftoverAge = time.Hour

// Download fetches the files of a model to the directory dir, which then has all of
// them, with the sizes and checksums of the record, or stays as it was. Its error wraps
// retrain.ErrDamaged, and names the file, if a stored file is missing or differs. A
// directory that has all files is kept; another one is replaced. Several processes may
// download to one directory at the same time.
func (r *Registry) Download(ctx context.Context, m retrain.Model, dir string) error {
	if len(m.Files) == 0 {
		return fmt.Errorf("fetching model %s: its record has no stored files (its state is %s)", m.Version, m.State)
	}
	for name := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("fetching model %s: %w: its record has the file %q", m.Version, retrain.ErrDamaged, name)
		}
	}
	if complete(dir, m) {
		return nil
	}
	parent, prefix := filepath.Dir(dir), "."+filepath.Base(dir)+".download-"
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("fetching model %s: %w", m.Version, err)
	}
	removeLeftovers(parent, prefix)
	temp, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return fmt.Errorf("fetching model %s: %w", m.Version, err)
	}
	defer os.RemoveAll(temp)
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		if err := r.downloadFile(ctx, objectName(m.Version, name), filepath.Join(temp, filepath.FromSlash(name)), m.Files[name]); err != nil {
			return fmt.Errorf("fetching model %s: file %s: %w", m.Version, name, err)
		}
	}
	if err := install(temp, dir, m); err != nil {
		return fmt.Errorf("fetching model %s: %w", m.Version, err)
	}
	return nil
}

func (r *Registry) downloadFile(ctx context.Context, name, path string, want retrain.File) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var sum hash.Hash
	err = r.objects.get(ctx, name, func() (io.Writer, error) {
		sum = sha256.New()
		if err := f.Truncate(0); err != nil {
			return nil, err
		}
		_, err := f.Seek(0, io.SeekStart)
		return io.MultiWriter(f, sum), err
	})
	if errors.Is(err, errNoObject) {
		return fmt.Errorf("%w: it is not in the object store", retrain.ErrDamaged)
	}
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if got := (retrain.File{Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}); got != want {
		return fmt.Errorf("%w: it has %d bytes with SHA-256 %s, the record has %d with %s",
			retrain.ErrDamaged, got.Size, got.SHA256, want.Size, want.SHA256)
	}
	return f.Sync()
}

// install renames temp to dir. Another process may do so at the same time.
func install(temp, dir string, m retrain.Model) error {
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	if err := syncDirs(temp); err != nil {
		return err
	}
	for {
		err := os.Rename(temp, dir)
		switch {
		case err == nil:
			return syncDir(filepath.Dir(dir))
		case !errors.Is(err, fs.ErrExist): // ENOTEMPTY as well
			return err
		case complete(dir, m):
			return nil
		}
		// dir is not this model: move it away in one step.
		aside := temp + "-replaced"
		if err := os.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(aside); err != nil {
			return err
		}
	}
}

// complete reports whether dir has all files of a model as they were registered.
func complete(dir string, m retrain.Model) bool {
	for name, want := range m.Files {
		if got, err := describeFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || got != want {
			return false
		}
	}
	return true
}

// removeLeftovers removes the directories of downloads that were killed. Errors are
// ignored: a leftover only takes space.
func removeLeftovers(parent, prefix string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		if strings.HasPrefix(entry.Name(), prefix) && time.Since(lastWrite(path)) > leftoverAge {
			os.RemoveAll(path) //nolint:errcheck // as above
		}
	}
}

// lastWrite is when something below dir was last written.
func lastWrite(dir string) (last time.Time) {
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
		return err
	})
	if err != nil {
		return time.Now() // another process is removing it
	}
	return last
}

// syncDirs makes the names of the files below dir durable.
func syncDirs(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncDir(path)
	})
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
