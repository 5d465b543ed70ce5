// Package filewatch polls a file for changes of its content. That works however the file is replaced: written in place,
// renamed over, or through the symbolic links of a mounted Kubernetes ConfigMap or Secret.
package filewatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// Period is how often the file is read.
	Period = time.Second
	// MaxBytes bounds what a wrong path reads into memory.
	MaxBytes = 1 << 20
)

// File is a file of settings. Only one goroutine may use it at a time.
type File struct {
	path    string
	sum     [sha256.Size]byte // of the content as last read
	lastErr string            // of the last attempt to read it
}

// New returns a file whose content is still unknown.
func New(path string) *File { return &File{path: path} }

// Path is the path of the file.
func (f *File) Path() string { return f.path }

// Read reads the file. What it returns does not count as a change.
func (f *File) Read() ([]byte, error) {
	content, err := readBounded(f.path)
	if err != nil {
		return nil, err
	}
	f.sum = sha256.Sum256(content)
	return content, nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: name a readable file", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: name a readable file", err)
	}
	if len(content) > MaxBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes; is it the right file?", path, MaxBytes)
	}
	return content, nil
}

// Check reads the file once and calls changed with new content, or failed if it cannot be read. It reports a change, and
// a failure that repeats, once.
func (f *File) Check(changed func(content []byte), failed func(error)) {
	before := f.sum
	content, err := f.Read()
	if err != nil {
		if f.lastErr != err.Error() {
			failed(err)
		}
		f.lastErr = err.Error()
		return
	}
	f.lastErr = ""
	if f.sum != before {
		changed(content)
	}
}

// Watch checks the file every Period until ctx ends.
func (f *File) Watch(ctx context.Context, changed func(content []byte), failed func(error)) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Check(changed, failed)
		}
	}
}
