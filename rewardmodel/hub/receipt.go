package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/durable"
)

// ReceiptFile is the name of the receipt in a pulled directory.
const ReceiptFile = "assay-pull.json"

// Receipt records the origin and the checksums of the files of a directory.
type Receipt struct {
	Repo string `json:"repo"`
	// Revision is the requested revision, Commit the commit that it resolved to.
	Revision string    `json:"revision"`
	Commit   string    `json:"commit"`
	Endpoint string    `json:"endpoint"`
	License  string    `json:"license,omitempty"` // as the model card names it
	Include  []string  `json:"include,omitempty"`
	Pulled   time.Time `json:"pulled"`
	Files    []File    `json:"files"`
}

// ReadReceipt reads the receipt of a directory. The error wraps fs.ErrNotExist for
// a directory that was not pulled, and ErrOccupied for a receipt that cannot be
// read.
func ReadReceipt(dir string) (Receipt, error) {
	data, err := os.ReadFile(filepath.Join(dir, ReceiptFile))
	if err != nil {
		return Receipt{}, err
	}
	var r Receipt
	if err := json.Unmarshal(data, &r); err != nil {
		return Receipt{}, fmt.Errorf("%s: %w; remove the directory to pull from scratch: %w", filepath.Join(dir, ReceiptFile), err, ErrOccupied)
	}
	for _, f := range r.Files {
		if err := f.check(); err != nil {
			return Receipt{}, fmt.Errorf("%s: %w; remove the directory to pull from scratch: %w", filepath.Join(dir, ReceiptFile), err, ErrOccupied)
		}
	}
	return r, nil
}

// Verify compares every file of the receipt with the directory, and returns the
// names of those that are missing or differ.
func (r Receipt) Verify(dir string) (wrong []string) {
	for _, f := range r.Files {
		if !f.matches(filepath.Join(dir, f.Name)) {
			wrong = append(wrong, f.Name)
		}
	}
	return wrong
}

// write writes the receipt to the directory atomically.
func (r Receipt) write(dir string) error {
	data, err := json.Marshal(r, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, ReceiptFile), append(data, '\n'), 0o644)
}

// unlisted lists the entries of the directory that the receipt does not name.
func (r Receipt) unlisted(dir string) ([]string, error) {
	ours := map[string]bool{ReceiptFile: true}
	for _, f := range r.Files {
		ours[f.Name] = true
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var unlisted []string
	for _, e := range entries {
		if !ours[e.Name()] && !durable.IsTemp(e.Name()) {
			unlisted = append(unlisted, e.Name())
		}
	}
	return unlisted, err
}
