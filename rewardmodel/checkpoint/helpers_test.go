package checkpoint

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// safetensors concatenates a header and data.
func safetensors(header, data string) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

// copyDirectory copies a directory of testdata so that a test can damage it.
func copyDirectory(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func readFile(t *testing.T, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeAll(t *testing.T, data []byte, elem ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(elem...), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// edit replaces text in a file, which must contain it.
func edit(t *testing.T, path, old, new string) {
	t.Helper()
	text := string(readFile(t, path))
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not contain %q", path, old)
	}
	writeAll(t, []byte(strings.ReplaceAll(text, old, new)), path)
}

// editHeader replaces text in the header of a safetensors file.
func editHeader(t *testing.T, path, old, new string) {
	t.Helper()
	file := readFile(t, path)
	end := 8 + binary.LittleEndian.Uint64(file)
	header := string(file[8:end])
	if !strings.Contains(header, old) {
		t.Fatalf("the header of %s does not contain %q", path, old)
	}
	writeAll(t, safetensors(strings.ReplaceAll(header, old, new), string(file[end:])), path)
}

// mustOpen opens a checkpoint and closes it at the end of the test.
func mustOpen(t *testing.T, dir string) *Checkpoint {
	t.Helper()
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// wantError checks that err wraps kind and is one line that contains text.
func wantError(t *testing.T, err, kind error, text string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("error %q is not %q", err, kind)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("error %q does not contain %q", err, text)
	}
	if strings.Contains(err.Error(), "\n") || len(err.Error()) > 800 {
		t.Errorf("error is not one clear line: %q", err)
	}
}
