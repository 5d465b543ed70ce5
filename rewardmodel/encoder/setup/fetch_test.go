package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakePip puts a python3 on the PATH whose "pip download" writes content as
// the named file and counts its calls in a file.
func fakePip(t *testing.T, file, content string) (calls func() int) {
	t.Helper()
	bin := t.TempDir()
	log := filepath.Join(bin, "calls")
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in *--version*) exit 0;; esac
echo call >> %[1]s
while [ $# -gt 0 ]; do
  if [ "$1" = --dest ]; then printf '%%s' '%[3]s' > "$2/%[2]s"; fi
  shift
done
`, log, file, content)
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "call")
	}
}

func TestDownload(t *testing.T) {
	calls := fakePip(t, "a.whl", "wheel")
	dir := t.TempDir()
	w := wheel{Requirement: "a==1", File: "a.whl", SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte("wheel"))), Bytes: 5}

	// What a killed run left: a torn file under the final name, and a temporary folder.
	if err := os.MkdirAll(filepath.Join(dir, "partial", "pip-unpack-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.whl"), []byte("whe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds the file
		path, err := download(context.Background(), dir, platform{}, w)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "wheel" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	if calls() != 1 {
		t.Errorf("pip ran %d times, want once", calls())
	}
	if exists(filepath.Join(dir, "partial")) {
		t.Error("the temporary folder stayed")
	}

	w.SHA256 = strings.Repeat("0", 64)
	if _, err := download(context.Background(), dir, platform{}, w); err == nil || !strings.Contains(err.Error(), "pinned is 000") {
		t.Errorf("another checksum: got %v", err)
	}
}

func TestDownloadWithoutPip(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := download(context.Background(), t.TempDir(), platform{}, wheel{File: "a.whl"})
	if err == nil || !strings.Contains(err.Error(), "python3-pip") {
		t.Errorf("got %v", err)
	}
}

// sample returns a shared library of the Go distribution that needs libtiff.so.6, libstdc++ and libc.
func sample(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "src/debug/elf/testdata/libtiffxx.so_"))
	if err != nil {
		t.Skip("this Go has no test data of debug/elf")
	}
	return string(text)
}

func writeWheel(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnpackTakesOnlyWhatIsNeeded(t *testing.T) {
	lib := sample(t)
	torch := writeWheel(t, map[string]string{
		"torch/include/a.h": "h", "torch/lib/libtorch_cpu.so": lib, "torch/lib/libtorch_cuda.so": lib, "torch/nn.py": "p",
	})
	// It needs itself, too: a cycle ends.
	extra := writeWheel(t, map[string]string{"nvidia/lib/libtiff.so.6": lib})
	dir := filepath.Join(t.TempDir(), "out")
	if err := unpack(context.Background(), []string{torch, extra}, dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{
		"torch/include/a.h": true, "torch/lib/libtorch_cpu.so": true, "nvidia/lib/libtiff.so.6": true,
		"torch/lib/libtorch_cuda.so": false, "torch/nn.py": false,
	} {
		if got := exists(filepath.Join(dir, file)); got != want {
			t.Errorf("%s: there %v, want %v", file, got, want)
		}
	}

	err := unpack(context.Background(), []string{torch}, filepath.Join(t.TempDir(), "out"))
	if err == nil || !strings.Contains(err.Error(), "needs libtiff.so.6") {
		t.Errorf("a library that no wheel holds: got %v", err)
	}
	bad := writeWheel(t, map[string]string{"torch/include/../../../evil.h": "h", "torch/lib/libtorch_cpu.so": lib})
	if err := unpack(context.Background(), []string{bad}, filepath.Join(t.TempDir(), "out")); err == nil {
		t.Error("an entry that points out of the archive was unpacked")
	}
}

func TestLinkDirs(t *testing.T) {
	lib := sample(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libtorch_cpu.so"), []byte(lib), 0o644); err != nil {
		t.Fatal(err)
	}
	dirs, missing, err := linkDirs([]string{filepath.Join(dir, "libtorch_cpu.so")})
	if err != nil || len(dirs) != 1 || dirs[0] != dir || len(missing) != 1 || missing[0] != "libtiff.so.6" {
		t.Errorf("dirs %v, missing %v, %v", dirs, missing, err)
	}
}
