package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/durable"
	"assay/rewardmodel/retrain"
)

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
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("fetching model %s: %w", m.Version, err)
	}
	err := durable.BuildDir(dir, 0o755, func(tmp string) error {
		for _, name := range slices.Sorted(maps.Keys(m.Files)) {
			if err := r.downloadFile(ctx, objectName(m.Version, name), filepath.Join(tmp, filepath.FromSlash(name)), m.Files[name]); err != nil {
				return fmt.Errorf("file %s: %w", name, err)
			}
		}
		return durable.SyncTree(tmp)
	})
	if err != nil {
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

// complete reports whether dir has all files of a model as they were registered.
func complete(dir string, m retrain.Model) bool {
	for name, want := range m.Files {
		if got, err := describeFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || got != want {
			return false
		}
	}
	return true
}
