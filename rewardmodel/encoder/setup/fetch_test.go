package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

	// Leftovers of a killed run: a truncated file under the final name, and a temporary directory.
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
		t.Error("the temporary directory still exists")
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

func writeWheel(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
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

func TestUnpackExtractsWhatTheDeviceNeeds(t *testing.T) {
	lib := sample(t)
	torch := writeWheel(t, "torch-2.whl", map[string]string{
		"torch/include/a.h": "h", "torch/nn.py": "p", "torch-2.dist-info/licenses/LICENSE": "torch's terms",
		"torch/lib/libtorch_cpu.so": lib, "torch/lib/libtorch_cuda.so": lib, "torch/lib/libtorch_cuda_linalg.so": lib,
		"torch/lib/libcaffe2_nvrtc.so": lib, "torch/lib/libtorch_python.so": lib,
	})
	// It also needs itself: a cycle terminates.
	extra := writeWheel(t, "nvidia_tiff-1.whl", map[string]string{
		"nvidia/lib/libtiff.so.6": lib, "nvidia/lib/libtiff_plugin.so.6": lib, "nvidia/tiff/LICENSE.txt": "nvidia's terms",
	})
	everywhere := []string{
		"torch/include/a.h", "torch/lib/libtorch_cpu.so", "nvidia/lib/libtiff.so.6",
		"licenses/torch/LICENSE", "licenses/nvidia_tiff/LICENSE.txt", "licenses/intel-mkl/LICENSE.txt",
	}
	withCUDA := []string{
		"torch/lib/libtorch_cuda.so", "torch/lib/libtorch_cuda_linalg.so", "torch/lib/libcaffe2_nvrtc.so", "nvidia/lib/libtiff_plugin.so.6",
	}
	for device, want := range map[string][]string{cpu: everywhere, cuda: slices.Concat(everywhere, withCUDA)} {
		t.Run(device, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			p := platform{Device: device, Static: []string{"intel-mkl"}}
			if err := unpack(context.Background(), []string{torch, extra}, dir, p); err != nil {
				t.Fatal(err)
			}
			for _, file := range slices.Concat(everywhere, withCUDA, []string{"torch/nn.py", "torch/lib/libtorch_python.so"}) {
				if got, want := exists(filepath.Join(dir, file)), slices.Contains(want, file); got != want {
					t.Errorf("%s exists: %v, want %v", file, got, want)
				}
			}
		})
	}
}

func TestUnpackRejects(t *testing.T) {
	lib := sample(t)
	license := "torch-2.dist-info/LICENSE"
	whole := map[string]string{"torch/include/a.h": "h", "torch/lib/libtorch_cpu.so": lib, license: "terms"}
	with := func(changes map[string]string) map[string]string {
		files := maps.Clone(whole)
		for name, text := range changes {
			if files[name] = text; text == "" {
				delete(files, name)
			}
		}
		return files
	}
	tiff := map[string]string{"torch/lib/libtiff.so.6": lib}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a library that no wheel contains":   {whole, "needs libtiff.so.6"},
		"a path out of the archive":          {with(map[string]string{"torch/include/../../../evil.h": "h"}), ""},
		"a wheel without its license":        {with(map[string]string{license: ""}), "torch-2.whl contains no license file"},
		"bundled code of an unknown license": {with(tiff), "torch/lib/libtiff.so.6: unknown license"},
	} {
		t.Run(name, func(t *testing.T) {
			wheel := writeWheel(t, "torch-2.whl", c.files)
			err := unpack(context.Background(), []string{wheel}, filepath.Join(t.TempDir(), "out"), platform{Device: cpu})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
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
