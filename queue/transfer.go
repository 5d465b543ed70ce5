package queue

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

	"github.com/nats-io/nats.go/jetstream"

	"assay/rewardmodel/retrain"
)

// leftoverAge is when the folder of a download that was killed is removed. One
// that lives writes to it all the time.
const leftoverAge = time.Hour

// Upload stores every regular file of a checkpoint folder, and returns their
// sizes and checksums for the record. Files that are stored already are kept:
// an upload that was cut off is simply done again. A version that is registered
// with other files is retrain.ErrExists, and left as it is.
func (r *Registry) Upload(ctx context.Context, version, dir string) (map[string]retrain.File, error) {
	files, err := describeFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("storing model %s: %w", version, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("storing model %s: %s has no files", version, dir)
	}
	if err := r.objects.sweep(ctx, orphanAge); err != nil {
		return nil, fmt.Errorf("storing model %s: %w", version, err)
	}
	free := func(ctx context.Context) error {
		m, err := r.Model(ctx, version)
		switch {
		case errors.Is(err, retrain.ErrNoModel):
			return nil
		case err != nil:
			return err
		case len(m.Files) > 0 && !maps.Equal(m.Files, files):
			return fmt.Errorf("%w with other files", retrain.ErrExists)
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := r.uploadFile(ctx, objectName(version, name), filepath.Join(dir, filepath.FromSlash(name)), files[name], free); err != nil {
			return nil, fmt.Errorf("storing model %s: %w", version, err)
		}
	}
	return files, nil
}

func (r *Registry) uploadFile(ctx context.Context, name, path string, want retrain.File, free func(context.Context) error) error {
	if there, err := r.stored(ctx, name, want); err != nil || there {
		return errors.Join(err, free(ctx))
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := r.objects.put(ctx, name, f, free); err != nil {
		return err
	}
	if there, err := r.stored(ctx, name, want); err != nil || there {
		return err
	}
	return fmt.Errorf("%s, or what is stored of it, changed meanwhile", path)
}

// stored tells whether an object has the checksum of a file and all its chunks.
func (r *Registry) stored(ctx context.Context, name string, want retrain.File) (bool, error) {
	info, _, err := r.objects.info(ctx, name)
	if err != nil || info == nil || int64(info.Size) != want.Size || hexDigest(info) != want.SHA256 {
		return false, err
	}
	chunks, err := r.objects.chunks(ctx, info)
	return chunks == uint64(info.Chunks), err
}

// hexDigest is the SHA-256 of an object in hexadecimal.
func hexDigest(info *jetstream.ObjectInfo) string {
	sum, err := jetstream.DecodeObjectDigest(info.Digest)
	if err != nil {
		return "" // no checksum that we know
	}
	return hex.EncodeToString(sum)
}

// objectName is <version>/<file>.
func objectName(version, file string) string { return token(version) + "/" + file }

// describeFiles returns the regular files below dir, by slash-separated names.
func describeFiles(dir string) (map[string]retrain.File, error) {
	files := map[string]retrain.File{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = describeFile(path)
		return err
	})
	return files, err
}

func describeFile(path string) (retrain.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return retrain.File{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return retrain.File{Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// Download fetches the files of a model to the folder dir, which then has all
// of them, with the sizes and checksums of the record, or is left as it was. A
// file that is missing in the store or is another is retrain.ErrDamaged, with
// its name. A folder that has all files already is kept, one that has not is
// replaced. Several processes may do it at once.
func (r *Registry) Download(ctx context.Context, m retrain.Model, dir string) error {
	if len(m.Files) == 0 {
		return fmt.Errorf("fetching model %s: its record names no stored files (it is %s)", m.Version, m.State)
	}
	for name := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("fetching model %s: %w: its record names the file %q", m.Version, retrain.ErrDamaged, name)
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
		return fmt.Errorf("%w: it has %d bytes with SHA-256 %s, registered are %d with %s",
			retrain.ErrDamaged, got.Size, got.SHA256, want.Size, want.SHA256)
	}
	return f.Sync()
}

// install renames temp to dir. Another process may do so at the same time.
func install(temp, dir string, m retrain.Model) error {
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	if err := syncFolders(temp); err != nil {
		return err
	}
	for {
		err := os.Rename(temp, dir)
		switch {
		case err == nil:
			return syncFolder(filepath.Dir(dir))
		case !errors.Is(err, fs.ErrExist): // ENOTEMPTY as well
			return err
		case complete(dir, m):
			return nil
		}
		// What is there is no model; aside with it, all at once.
		aside := temp + "-replaced"
		if err := os.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(aside); err != nil {
			return err
		}
	}
}

// complete tells whether dir has all files of a model as they were registered.
func complete(dir string, m retrain.Model) bool {
	for name, want := range m.Files {
		if got, err := describeFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || got != want {
			return false
		}
	}
	return true
}

// removeLeftovers removes what killed downloads left behind. What cannot be
// removed is in nobody's way.
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
		return time.Now() // somebody else is at it
	}
	return last
}

// syncFolders makes the names of the files below dir durable.
func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncFolder(path)
	})
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Remove deletes the stored files of a version. Its record stays.
func (r *Registry) Remove(ctx context.Context, version string) error {
	names, err := r.objects.names(ctx, objectName(version, ""))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.objects.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
