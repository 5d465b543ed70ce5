package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const wrappers = `void atg_add(tensor *out__, tensor self) {
  PROTECT(
    out__[0] = new torch::Tensor(torch::add(*self));
  )
}

tensor *atg_align_tensors(tensor *data, int len) {
  PROTECT(
    return nullptr;
  )
  return nullptr;
}

int64_t atg_size(tensor self) {
  PROTECT(
    return self->size();
  )
  return 0;
}
`

func TestStubLines(t *testing.T) {
	complaint := []byte("torch_api.h:20:5: note: x\n" +
		"torch_api_generated.cpp.h:9:5: error: 'y' was not declared\n" +
		"torch_api_generated.cpp.h:16:7:   required from here\n" +
		"torch_api_generated.cpp.h:3:7: warning: nothing\n")
	lines := failingLines(complaint)
	if !slices.Equal(lines, []int{9, 16}) {
		t.Fatalf("failing lines %v", lines)
	}
	text, names := stubLines([]byte(wrappers), lines)
	if !slices.Equal(names, []string{"atg_align_tensors", "atg_size"}) {
		t.Errorf("stubbed %v", names)
	}
	got := string(text)
	for _, want := range []string{
		`  PROTECT(throw std::runtime_error("align_tensors: not in this libtorch");) return 0;`,
		`  PROTECT(throw std::runtime_error("size: not in this libtorch");) return 0;`,
		"torch::add(*self)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if a, b := strings.Count(got, "\n"), strings.Count(wrappers, "\n"); a != b {
		t.Errorf("%d lines became %d: later passes would stub the wrong wrappers", b, a)
	}
}

func TestStubNamedRequiresAll(t *testing.T) {
	text, err := stubNamed([]byte(wrappers), []string{"atg_add"})
	if err != nil || !strings.Contains(string(text), `std::runtime_error("add: not in this libtorch");)`+"\n") {
		t.Errorf("%v:\n%s", err, text)
	}
	if _, err := stubNamed([]byte(wrappers), []string{"atg_add", "atg_gone"}); err == nil {
		t.Error("a missing wrapper went unnoticed")
	}
}

// A compiler that rejects one wrapper per pass, because errors hide others.
func TestFitWrappersRepeats(t *testing.T) {
	dir := t.TempDir()
	cxx := filepath.Join(dir, "cxx")
	script := `#!/bin/sh
for name in add size; do
  if ! grep -q "\"$name: not in this libtorch\"" torch_api_generated.cpp.h; then
    n=$(grep -n "atg_$name(" torch_api_generated.cpp.h | cut -d: -f1)
    echo "torch_api_generated.cpp.h:$((n + 2)):1: error: no $name" >&2
    exit 1
  fi
done
`
	if err := os.WriteFile(cxx, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CXX", cxx)
	path := filepath.Join(dir, wrappersFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(wrappers), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := fitWrappers(context.Background(), dir, libtorch{Version: "9.9.9", Standard: 20}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "not in this libtorch"); n != 2 {
		t.Errorf("%d stubs, want 2", n)
	}

	// An error outside the generated wrappers cannot be stubbed.
	if err := os.WriteFile(cxx, []byte("#!/bin/sh\necho 'torch_api.cpp:7:1: error: no such thing' >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	err = fitWrappers(context.Background(), dir, libtorch{Version: "9.9.9", Standard: 20})
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
}
