package checkpoint

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// UpdateManifest lets edit change the assay.json of the checkpoint in dir, and
// writes it. A reader sees the old file or the new one, also when the process
// is killed. What edit must not touch are the checksums. The folder must have
// an assay.json; what edit leaves is validated as Open does.
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
	unlock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := open(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if !c.folder.has(manifestFile) {
		return fmt.Errorf("%s: %w", manifestFile, os.ErrNotExist)
	}
	edit(c.Manifest)
	if err := c.Manifest.validate(c.Config); err != nil {
		return err
	}
	data, err := marshalFile(c.Manifest)
	if err != nil {
		return err
	}
	// A hidden name: a kill in between leaves a file that no reader looks at,
	// and the next update takes away.
	partial := filepath.Join(dir, "."+manifestFile+".partial")
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if _, err := writeFile(partial, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
		return err
	}
	if err := os.Rename(partial, filepath.Join(dir, manifestFile)); err != nil {
		return err
	}
	return syncFolder(dir)
}
