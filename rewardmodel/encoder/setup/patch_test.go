package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// copyOfGotch copies the pinned module out of the module cache; it never downloads.
func copyOfGotch(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", gotchModule+"@"+gotchVersion)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("%s %s is not in the module cache: run make setup", gotchModule, gotchVersion)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, part := range []string{".", "libtch", "ts"} {
		if err := copyFiles(filepath.Join(module.Dir, part), filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPatchesFitThePinnedGotch(t *testing.T) {
	dir := copyOfGotch(t)
	if err := applyPatches(dir, "// #cgo LDFLAGS: -lc10"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"ts/tensor-generated.go", "ts/tensor.go", "ts/patch.go"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			comment := strings.HasPrefix(strings.TrimSpace(line), "*") || strings.HasPrefix(strings.TrimSpace(line), "//")
			if strings.Contains(line, "C.malloc(0)") && !comment {
				t.Errorf("%s still leaks: %s", file, line)
			}
		}
	}
	// All stubs of the pinned libtorch exist, and are void.
	text, err := os.ReadFile(filepath.Join(dir, wrappersFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stubNamed(text, knownStubs[torchVersion]); err != nil {
		t.Error(err)
	}
	// A second application finds no matches, and fails.
	if err := applyPatches(dir, ""); err == nil || !strings.Contains(err.Error(), "matches 0 times") {
		t.Errorf("applying the patch twice: got %v", err)
	}
}

func TestEditFailsOnAnotherCount(t *testing.T) {
	e := edit{File: "a.go", Why: "doubles", Old: `x`, New: "xx", Count: 2}
	if got, err := e.apply("axbx"); err != nil || got != "axxbxx" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, text := range []string{"", "x", "xxx"} {
		if _, err := e.apply(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestKeepAlive(t *testing.T) {
	in := `func(ts *Tensor) Add(other *Tensor, alpha *Scalar, n int)(retVal *Tensor, err error) {
  lib.AtgAdd(ptr, ts.ctensor, other.ctensor)
}
func Cat(tensors []*Tensor)(retVal *Tensor, err error) {
  cptr := lib.AtgCat(ctensors)
}
func Seed(n int64) {
  lib.AtManualSeed(n)
}
`
	out, n := keepAlive(in)
	if n != 2 {
		t.Errorf("guarded %d calls, want 2", n)
	}
	for _, want := range []string{
		"other.ctensor)\n\truntime.KeepAlive(ts); runtime.KeepAlive(other); runtime.KeepAlive(alpha)\n",
		"lib.AtgCat(ctensors)\n\truntime.KeepAlive(tensors)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
