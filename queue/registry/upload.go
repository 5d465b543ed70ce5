package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"assay/rewardmodel/retrain"
)

// Upload stores every regular file of a checkpoint directory, and returns their sizes
// and checksums for the record. Files that are stored already are kept, so that an
// interrupted upload can be repeated. Its error wraps retrain.ErrExists if the version
// is registered with other files, which stay.
func (r *Registry) Upload(ctx context.Context, version, dir string) (map[string]retrain.File, error) {
	files, err := describeFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("storing model %s: %w", version, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("storing model %s: %s has no files", version, dir)
	}
	if err := r.objects.removeOrphans(ctx, orphanAge); err != nil {
		return nil, fmt.Errorf("storing model %s: %w", version, err)
	}
	if err := r.removeAbandoned(ctx, version, abandonedAge); err != nil {
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
	if found, err := r.stored(ctx, name, want); err != nil || found {
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
	if found, err := r.stored(ctx, name, want); err != nil || found {
		return err
	}
	return fmt.Errorf("%s, or its stored copy, changed during the upload", path)
}

// stored reports whether an object has the checksum of a file and all its chunks.
func (r *Registry) stored(ctx context.Context, name string, want retrain.File) (bool, error) {
	info, _, err := r.objects.info(ctx, name)
	if errors.Is(err, retrain.ErrDamaged) {
		return false, nil
	}
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
		return "" // a digest in an unknown format
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
