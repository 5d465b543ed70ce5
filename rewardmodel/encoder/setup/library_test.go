package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestLazyFunctions calls the functions of a small library through those that the set-up writes, before and after it is loaded.
func TestLazyFunctions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	compile := func(args ...string) {
		cxx := compiler()
		cmd := exec.Command(cxx[0], append(cxx[1:], args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if _, err := exec.LookPath(compiler()[0]); err != nil {
		t.Skip(err)
	}
	library := filepath.Join(dir, "libsmall.so")
	compile("-shared", "-fPIC", "-o", library, write("small.cpp", `
static int hidden(int a) { return a + 1; }
extern "C" {
int data = 3;
int second(int a, int b, int c, int d, int e, int f, int g, double h) { return hidden(a) * 10000 + g * 100 + (int)h; }
int first() { return data; }
}
void of_cplusplus() {}
`))
	functions, err := exportedFunctions(library)
	if err != nil || !slices.Equal(functions, []string{"first", "second"}) {
		t.Fatalf("functions %q, %v", functions, err)
	}
	program := filepath.Join(dir, "program")
	compile("-x", "assembler-with-cpp", "-c", "-o", filepath.Join(dir, "lazy.o"), write("lazy.S", lazyFunctions(functions)))
	compile("-x", "c", "-c", "-o", filepath.Join(dir, "load.o"), write("load.c", loadC))
	compile("-x", "c", "-c", "-o", filepath.Join(dir, "main.o"), write("main.c", `
#include <stdio.h>
const char *gotch_load(const char *file);
int first(void), second(int, int, int, int, int, int, int, double);
int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		const char *failed = gotch_load(argv[i]);
		if (failed) return fprintf(stderr, "%s\n", failed), 3;
	}
	return first() == 3 && second(1, 0, 0, 0, 0, 0, 7, 9.5) == 20709 ? 0 : 4;
}
`))
	compile("-o", program, filepath.Join(dir, "main.o"), filepath.Join(dir, "lazy.o"), filepath.Join(dir, "load.o"), "-ldl", "-lpthread")
	for _, c := range []struct {
		name string
		args []string
		want int
	}{
		{"loaded", []string{library}, 0},
		{"loaded twice", []string{library, library}, 0},
		{"not there", []string{library + ".no"}, 3},
		{"not loaded", nil, -1}, // aborted
	} {
		cmd := exec.Command(program, c.args...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%s: exit code %d, want %d: %s", c.name, got, c.want, out)
		}
	}
	if _, err := exportedFunctions(filepath.Join(dir, "program.no")); err == nil {
		t.Error("a library that is not there: no error")
	}
}
