package hub

import (
	"crypto/sha1" // #nosec G505 -- git names a blob by it
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// File is a file of a repository with its checksum.
type File struct {
	Name string `json:"name"`
	// Size is its length in bytes.
	Size int64 `json:"size"`
	// SHA256 is the checksum of a file in large file storage, in lowercase
	// hexadecimal; "" for any other file.
	SHA256 string `json:"sha256,omitempty"`
	// GitSHA1 is git's name of the blob, the checksum of every other file: the
	// SHA-1 of "blob <size>\x00" and the content.
	GitSHA1 string `json:"git_sha1,omitempty"`
}

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check rejects an invalid description of a file.
func (f File) check() error {
	if err := checkPath(f.Name); err != nil {
		return err
	}
	if f.Size < 0 {
		return fmt.Errorf("file %q has the size %d: %w", f.Name, f.Size, ErrUnavailable)
	}
	if f.SHA256 == "" && commitPattern.MatchString(f.GitSHA1) || f.GitSHA1 == "" && sha256Pattern.MatchString(f.SHA256) {
		return nil
	}
	return fmt.Errorf("file %q has no checksum: %w", f.Name, ErrUnavailable)
}

// checkPath rejects a path that leads outside a directory.
func checkPath(path string) error {
	if path == "." || strings.ContainsRune(path, 0) || !filepath.IsLocal(path) {
		return fmt.Errorf("the hub lists a file %.200q, which could lead outside the directory: %w", path, ErrUnsafe)
	}
	return nil
}

// sum is the checksum of either kind.
func (f File) sum() string { return f.SHA256 + f.GitSHA1 }

// digest returns a hash whose sum over the content is f's checksum.
func (f File) digest() hash.Hash {
	if f.SHA256 != "" {
		return sha256.New()
	}
	h := sha1.New() // #nosec G401 -- as git does
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

// matches reports whether the file at path has the content that f describes. A
// file that cannot be read does not.
func (f File) matches(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	digest := f.digest()
	if _, err := io.Copy(digest, file); err != nil {
		return false
	}
	return hex.EncodeToString(digest.Sum(nil)) == f.sum()
}
