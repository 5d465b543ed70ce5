package packedweights

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/durable"
)

// maxFiles is the number of files that a directory keeps: those used last.
const maxFiles = 4

// Dir is a directory of files; "" holds none.
type Dir string

// Mapping is a file in memory.
type Mapping struct {
	Weights []byte // only for reading, until Close
	Deviation
	data []byte
}

// Close removes the file from memory; the weights must not be read any more.
func (m *Mapping) Close() error { return unix.Munmap(m.data) }

func (d Dir) path(f File) string { return filepath.Join(string(d), f.name()) }

// Open maps a file. It fails with fs.ErrNotExist if there is none, with ErrInvalid if it is damaged or another one, and
// with UntrustedError if another user can write it.
func (d Dir) Open(f File) (*Mapping, error) {
	if d == "" {
		return nil, os.ErrNotExist
	}
	root, err := d.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(f.name(), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := trust(d.path(f), info); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != int64(headerSize+f.Size) {
		return nil, ErrInvalid
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	weights, deviation, err := f.parse(data)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(data))
	}
	now := time.Now()
	_ = root.Chtimes(f.name(), now, now) // in a directory that is read-only nothing is removed either
	return &Mapping{weights, deviation, data}, nil
}

// Write adds a file of weights, f.Size bytes, and removes those that have not been used for longest. It creates the
// directory. Several processes may write the same file at a time. It fails with UntrustedError if another user can write
// the directory.
func (d Dir) Write(f File, weights []byte, deviation Deviation) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	root, err := d.root()
	if err != nil {
		return err
	}
	defer root.Close()
	err = durable.WriteTo(d.path(f), 0o600, func(w io.Writer) error {
		_, err := w.Write(header(f.Key, deviation, weights))
		if err == nil {
			_, err = w.Write(weights)
		}
		return err
	})
	return errors.Join(err, d.prune())
}

// isFile reports whether a name is that of such a file.
func isFile(name string) bool {
	suffix := filepath.Ext(name)
	return (suffix == ".int8" || suffix == ".bf16") && !durable.IsTemp(name)
}

// prune keeps the files that were used last. Processes that have mapped another one keep its content. It removes the
// temporary files of killed processes, which no later write of the same file may follow.
func (d Dir) prune() error {
	durable.RemoveLeftovers(string(d), "")
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return err
	}
	type used struct {
		name string
		at   time.Time
	}
	var files []used
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && isFile(entry.Name()) {
			files = append(files, used{entry.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b used) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.name, b.name)) })
	for _, old := range files[min(maxFiles, len(files)):] {
		if gone := os.Remove(filepath.Join(string(d), old.name)); gone != nil && !errors.Is(gone, os.ErrNotExist) { // another process prunes too
			err = errors.Join(err, gone)
		}
	}
	return err
}
