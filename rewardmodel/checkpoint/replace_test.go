package checkpoint

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// left lists the entries of a directory.
func left(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

func TestWriteReplaces(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	writeCopy(t, dir, "bert-two")
	writeAll(t, nil, dir, "stale.txt")
	old := mustOpen(t, dir)
	writeCopy(t, dir, "roberta-bf16")

	if got := left(t, dir); got != "assay.json config.json model.safetensors" {
		t.Errorf("files %s", got)
	}
	if got := left(t, parent); got != "model" {
		t.Errorf("next to it: %s", got)
	}
	if c := mustOpen(t, dir); c.Config.ModelType != Roberta {
		t.Errorf("still %s", c.Config.ModelType)
	}
	// A checkpoint that was opened before is still readable.
	if _, err := old.Float32("classifier.weight"); err != nil {
		t.Error(err)
	}
	if err := old.VerifySHA256(t.Context()); err == nil {
		t.Error("the files of the old directory are gone, but verify")
	}
}

// A checkpoint can replace the one that it is read from.
func TestWriteOverItsSource(t *testing.T) {
	dir := copyDirectory(t, "roberta-two")
	writeAll(t, []byte("{}"), dir, "vocab.json")
	c := mustOpen(t, dir)
	files, err := TokenizerFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, c.Config, Manifest{Version: "v2"}, tensorsOf(t, c), files...); err != nil {
		t.Fatal(err)
	}
	if again := mustOpen(t, dir); again.Manifest.Version != "v2" || again.Manifest.SHA256["vocab.json"] == "" {
		t.Errorf("got %+v", again.Manifest)
	}
}

func TestWriteThroughLink(t *testing.T) {
	parent := t.TempDir()
	dir, alias := filepath.Join(parent, "v1"), filepath.Join(parent, "current")
	writeCopy(t, dir, "bert-two")
	if err := os.Symlink("v1", alias); err != nil {
		t.Fatal(err)
	}
	writeCopy(t, alias, "roberta-two")
	if c := mustOpen(t, dir); c.Config.ModelType != Roberta {
		t.Error("the link was replaced, not the directory")
	}
	if got := left(t, parent); got != "current v1" {
		t.Errorf("left %s", got)
	}
}

func TestWriteRejectsOtherDirectories(t *testing.T) {
	c := mustOpen(t, filepath.Join("testdata", "bert-two"))
	dir := t.TempDir()
	writeAll(t, []byte("x"), dir, "thesis.txt")
	err := Write(dir, c.Config, Manifest{Version: "v1"}, tensorsOf(t, c))
	wantError(t, err, nil, "contains other files and no checkpoint")
	err = Write(filepath.Join(dir, "thesis.txt"), c.Config, Manifest{Version: "v1"}, tensorsOf(t, c))
	wantError(t, err, nil, "thesis.txt")
	if got := left(t, dir); got != "thesis.txt" {
		t.Errorf("left %s", got)
	}
	empty := t.TempDir()
	if err := Write(empty, c.Config, Manifest{Version: "v1"}, tensorsOf(t, c)); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
}

// A failed write does not change the existing checkpoint.
func TestFailedWriteKeepsTheOld(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	writeCopy(t, dir, "bert-two")
	c := mustOpen(t, dir)
	tensors := tensorsOf(t, c)
	failure := errors.New("the device went away")
	tensors[20].WriteTo = func(io.Writer) error { return failure }
	err := Write(dir, c.Config, Manifest{Version: "v2"}, tensors)
	wantError(t, err, failure, "device went away")
	if again := mustOpen(t, dir); again.Manifest.Version != "v1" {
		t.Errorf("version %s", again.Manifest.Version)
	}
	if got := left(t, parent); got != "model" {
		t.Errorf("left %s", got)
	}
}

// Without an atomic exchange, a crash may leave only the renamed old directory.
func TestRecoverFromCrashBetweenRenames(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	writeCopy(t, dir, "bert-two")
	aside := filepath.Join(parent, ".model.old")
	if err := os.Rename(dir, aside); err != nil {
		t.Fatal(err)
	}
	if c := mustOpen(t, dir); c.Manifest.Version != "v1" || c.Dir != dir {
		t.Errorf("opened %s of %s", c.Manifest.Version, c.Dir)
	}
	// A failed write restores it; a successful one replaces it.
	c := mustOpen(t, dir)
	if err := Write(dir, c.Config, Manifest{}, nil); err == nil {
		t.Fatal("no error")
	}
	if got := left(t, parent); got != "model" {
		t.Errorf("left %s", got)
	}
	if err := os.CopyFS(aside, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	writeCopy(t, dir, "roberta-two")
	if got := left(t, parent); got != "model" {
		t.Errorf("left %s", got)
	}
}

// Readers see one complete checkpoint, whatever writers do.
func TestWriteAtTheSameTime(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	writeCopy(t, dir, "bert-two")
	var group sync.WaitGroup
	for _, name := range []string{"bert-two", "roberta-two", "bert-f16"} {
		source := mustOpen(t, filepath.Join("testdata", name))
		tensors := tensorsOf(t, source)
		group.Go(func() {
			for range 3 {
				if err := Write(dir, source.Config, Manifest{Version: name}, tensors); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 30 {
		c, err := Open(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, spec := range Specs(c.Config, true) {
			if _, err := c.Float32(spec.Name); err != nil {
				t.Error(err)
			}
		}
		c.Close()
	}
	group.Wait()
	if got := left(t, parent); got != "model" {
		t.Errorf("left %s", got)
	}
}
