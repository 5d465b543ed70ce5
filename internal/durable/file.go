// Package durable writes files and directories atomically: after a crash of the process
// or of the machine, and for concurrent readers, the content is the old or the new one,
// never a part of it. It writes under a temporary name in the same directory, flushes
// that to the disk, renames it, and flushes the directory.
package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// bufferSize is the buffer of a writer, in bytes.
	bufferSize = 256 << 10
	// leftoverAge is the age at which a temporary file is assumed to belong to a
	// killed process.
	leftoverAge = time.Hour
)

// WriteFile replaces the content of the file at path with data. A new file gets the mode perm,
// before umask.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return WriteTo(path, perm, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// WriteTo replaces the content of the file at path with the output of write. An error of
// write is returned unchanged, and the file does not change. Concurrent writers of the
// same file are allowed: the last rename wins.
func WriteTo(path string, perm fs.FileMode, write func(io.Writer) error) error {
	dir, prefix := filepath.Dir(path), tempPrefix(path)
	temp := filepath.Join(dir, fmt.Sprintf("%s%016x", prefix, rand.Uint64()))
	if err := CreateFile(temp, perm, write); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	RemoveLeftovers(dir, prefix)
	return SyncDir(dir)
}

// CreateFile writes a new file and flushes it to the disk. For an existing file, the
// error wraps fs.ErrExist. A file that could not be written is removed. It does not
// flush the directory: it is for the files of a directory that is installed as a whole,
// see BuildDir.
func CreateFile(path string, perm fs.FileMode, write func(io.Writer) error) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(file.Close()), os.Remove(path))
		}
	}()
	buffered := bufio.NewWriterSize(file, bufferSize)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}

// IsTemp reports whether name, without a directory, is the temporary name of a
// file of WriteFile.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, tempMark)
}

const tempMark = ".tmp-"

func tempPrefix(path string) string { return "." + filepath.Base(path) + tempMark }

// RemoveLeftovers removes the temporary files of killed processes from a directory, those
// whose name begins with prefix. Those that it cannot remove are harmless.
func RemoveLeftovers(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), prefix) || !IsTemp(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
}

// SyncDir flushes the names in a directory to the disk.
func SyncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// SyncTree flushes the names in a directory and in all directories below it.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return SyncDir(path)
	})
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
