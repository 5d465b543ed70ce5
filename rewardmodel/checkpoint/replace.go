package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/durable"
)

// replaceDir builds a checkpoint directory with fill and replaces dir with it.
func replaceDir(dir string, fill func(tmp string) error) error {
	dir, err := target(dir)
	if err != nil {
		return err
	}
	return durable.BuildDir(dir, 0o755, fill)
}

// target resolves links to the directory and refuses to replace anything that is
// not a checkpoint.
func target(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) && !exists(dir) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	config := filepath.Join(real, "config.json")
	if exists(config) {
		return real, nil
	}
	entries, err := os.ReadDir(real)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // another writer removes the directory that it has just replaced
		return "", err
	}
	if len(entries) > 0 && !exists(config) {
		return "", fmt.Errorf("the directory contains other files and no checkpoint; choose another")
	}
	return real, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
