package checkpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"assay/rewardmodel/calibration"
)

func TestUpdateManifest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	writeCopy(t, dir, "bert-two")
	leftover := "." + manifestFile + ".tmp-1"
	writeAll(t, []byte("left by a killed update"), dir, leftover)
	hoursAgo := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, leftover), hoursAgo, hoursAgo); err != nil {
		t.Fatal(err)
	}
	before := mustOpen(t, dir).Manifest
	want := calibration.Map{From: []float64{-1, 0, 2}, To: []float64{-2, 0, 1}}
	if err := UpdateManifest(dir, func(m *Manifest) { m.Calibration = map[string]calibration.Map{"max": want} }); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, dir)
	if got := c.Manifest.Calibration["max"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if err := c.VerifySHA256(t.Context()); err != nil {
		t.Error(err)
	}
	c.Manifest.Calibration = nil
	if !reflect.DeepEqual(c.Manifest, before) {
		t.Errorf("got %+v, was %+v", c.Manifest, before)
	}
	if names, err := c.directory.names(); err != nil || slices.Contains(names, leftover) {
		t.Errorf("the directory holds %v, %v", names, err)
	}
}

func TestUpdateManifestRejects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	writeCopy(t, dir, "bert-two")
	before := readFile(t, dir, manifestFile)
	err := UpdateManifest(dir, func(m *Manifest) { m.Threshold = 2 })
	wantError(t, err, ErrDamaged, "threshold is 2")
	if after := readFile(t, dir, manifestFile); string(after) != string(before) {
		t.Errorf("a refused update wrote %s", after)
	}
	if err := os.Remove(filepath.Join(dir, manifestFile)); err != nil {
		t.Fatal(err)
	}
	wantError(t, UpdateManifest(dir, func(*Manifest) {}), fs.ErrNotExist, manifestFile)
	wantError(t, UpdateManifest(filepath.Join(dir, "nowhere"), func(*Manifest) {}), fs.ErrNotExist, "nowhere")
}
