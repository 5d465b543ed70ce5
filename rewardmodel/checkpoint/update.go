package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"assay/internal/durable"
)

// UpdateManifest lets edit change the assay.json of the checkpoint in dir, and
// writes it. A reader sees either the old file or the new one, even when the
// process is killed. edit must not change the checksums. The directory must have
// an assay.json; the edited manifest is validated as in Open.
func UpdateManifest(dir string, edit func(*Manifest)) error {
	if err := updateManifest(dir, edit); err != nil {
		return fmt.Errorf("update checkpoint %s: %w", dir, err)
	}
	return nil
}

func updateManifest(dir string, edit func(*Manifest)) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	lock, err := durable.WaitLock(dir)
	if err != nil && !errors.Is(err, durable.ErrNoLocks) {
		return err
	}
	defer lock.Unlock()
	c, err := open(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if !c.directory.has(manifestFile) {
		return fmt.Errorf("%s: %w", manifestFile, os.ErrNotExist)
	}
	edit(c.Manifest)
	c.Manifest.mirrorFirst()
	if err := c.Manifest.validate(c.Config); err != nil {
		return err
	}
	data, err := marshalFile(c.Manifest)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, manifestFile), data, 0o644)
}
