package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestEveryWheelIsPinned(t *testing.T) {
	hash := regexp.MustCompile(`^[0-9a-f]{64}$`)
	for _, arch := range []string{"amd64", "arm64"} {
		for _, device := range []string{cpu, cuda} {
			p, err := platformFor("linux", arch, device)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(p.Wheels[0].Requirement, "torch==") {
				t.Errorf("%s, %s: the first wheel is not torch", arch, device)
			}
			if device == cuda && len(p.Wheels) <= len(platforms[arch].Wheels) {
				t.Errorf("%s: no wheels for CUDA", arch)
			}
			seen := make(map[string]bool)
			for _, w := range p.Wheels {
				name, version, ok := strings.Cut(w.Requirement, "==")
				file := strings.ReplaceAll(name, "-", "_") + "-" + version + "-"
				if !ok || !hash.MatchString(w.SHA256) || w.Bytes == 0 || !strings.HasPrefix(w.File, file) ||
					!strings.Contains(w.File, p.Arch) || seen[w.SHA256] {
					t.Errorf("%s, %s: %+v", arch, device, w)
				}
				seen[w.SHA256] = true
			}
			for _, directory := range p.Static {
				if _, err := bundledTexts.ReadDir("licenses/" + directory); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// The set-up verifies what it downloads; the image must not download wheels in another way.
func TestImageUsesTheSetup(t *testing.T) {
	text, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if unpinned := regexp.MustCompile(`(?m)^.*\bpip3? (install|download)\b.*$`).FindString(string(text)); unpinned != "" {
		t.Errorf("the Dockerfile downloads without checksums: %s", unpinned)
	}
	if !strings.Contains(string(text), `./rewardmodel/encoder/setup -device "$DEVICE"`) {
		t.Error("the Dockerfile does not pass DEVICE to the set-up")
	}
}

func TestPlatformFor(t *testing.T) {
	for _, c := range []struct{ goos, goarch, device, want string }{
		{"linux", "riscv64", cpu, "LIBTORCH"},
		{"darwin", "arm64", cpu, "LIBTORCH"},
		{"linux", "amd64", "gpu", `device "gpu": use cpu or cuda`},
	} {
		if _, err := platformFor(c.goos, c.goarch, c.device); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v", c, err)
		}
	}
}

func TestDevicesAreCachedSeparately(t *testing.T) {
	p, err := platformFor("linux", "amd64", cpu)
	if err != nil {
		t.Fatal(err)
	}
	q, err := platformFor("linux", "amd64", cuda)
	if err != nil {
		t.Fatal(err)
	}
	if p.key() == q.key() {
		t.Errorf("cpu and cuda share the directory %s", p.key())
	}
}

func TestWorkspace(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module m\n\ngo 1.26.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := writeWorkspace(root, "/cache/gotch"); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\ngo 1.26.0\n", "\nuse .\n", "replace " + gotchModule + " " + gotchVersion + " => /cache/gotch\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "go.work"), []byte("go 1.26\nuse ../other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeWorkspace(root, "/cache/gotch"); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("the user's own go.work: got %v", err)
	}
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held lock: got %v", err)
	}
	unlock()
	again, err := lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestAptCommand(t *testing.T) {
	has := func(names ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			for _, n := range names {
				if n == name {
					return "/bin/" + n, nil
				}
			}
			return "", errors.New("not found")
		}
	}
	for _, c := range []struct {
		uid  int
		look func(string) (string, error)
		want string // "": an error that says how to get a compiler
	}{
		{0, has("apt-get"), "/bin/apt-get"},
		{1000, has("apt-get", "sudo"), "/bin/sudo -n /bin/apt-get"},
		{1000, has("apt-get"), ""},
		{0, has(), ""},
	} {
		got, err := aptCommand(c.uid, c.look)
		if strings.Join(got, " ") != c.want || (err == nil) != (c.want != "") {
			t.Errorf("uid %d: got %v, %v; want %q", c.uid, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), compilerHelp) {
			t.Errorf("uid %d: %v does not say how to get one", c.uid, err)
		}
	}
}

func TestRequirementsAreNamed(t *testing.T) {
	if err := ensureSpace(t.TempDir(), 1<<62); err == nil || !strings.Contains(err.Error(), "ASSAY_CACHE") {
		t.Errorf("a full disk: got %v", err)
	}
	if err := checkPath("ASSAY_CACHE", "/home/a b"); err == nil || !strings.Contains(err.Error(), "ASSAY_CACHE") {
		t.Errorf("a path with a space: got %v", err)
	}
	t.Setenv("CXX", "no-such-compiler")
	if err := ensureCompiler(context.Background()); err == nil || !strings.Contains(err.Error(), "no-such-compiler") {
		t.Errorf("a missing CXX: got %v", err)
	}
	if _, err := inspect(t.TempDir()); err == nil || !strings.Contains(err.Error(), "libtorch_cpu.so") {
		t.Errorf("an empty LIBTORCH: got %v", err)
	}
}

func TestHeaders(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) string {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	macros := "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 15\n#define TORCH_VERSION_PATCH 0\n#define TORCH_VERSION_ABI_TAG 0\n"
	write("old/csrc/api/include/torch/version.h", macros)
	write("new/csrc/api/include/torch/version.h", "#include <torch/headeronly/version.h>\n")
	write("new/headeronly/version.h", macros)
	for _, d := range []string{"old", "new"} {
		if v, err := headerVersion(filepath.Join(dir, d)); err != nil || v != "2.15.0" {
			t.Errorf("%s: %q, %v", d, v, err)
		}
	}
	if _, err := headerVersion(dir); err == nil {
		t.Error("headers without a version went unnoticed")
	}
	for text, want := range map[string]int{
		"#error C++20 or later compatible compiler is required to use ATen.\n": 20,
		"#error C++14 or later compatible compiler is required to use ATen.\n": 17,
		"#pragma once\n": 17,
	} {
		if got, err := headerStandard(write("ATen.h", text)); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
