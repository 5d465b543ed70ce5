package encoder

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel"
)

// TestPackedLoad loads the shipped model without a file, while it writes one, from it, and from damaged ones: the scores
// have the same bits.
func TestPackedLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("loads the shipped model several times")
	}
	for _, precision := range []Precision{Int8, BF16} {
		t.Run(string(precision), func(t *testing.T) { packedLoad(t, precision) })
	}
}

func packedLoad(t *testing.T, precision Precision) {
	m, tok := shippedInPanels(t, newRuntime(t), precision)
	var batch []rewardmodel.Sequence
	for _, text := range int8CheckTexts {
		batch = append(batch, rewardmodel.Sequence{IDs: tok.Frame(tok.IDs(text))})
	}
	want, err := m.Margins(batch)
	if err != nil {
		t.Fatal(err)
	}
	numerics, err := m.Numerics()
	if err != nil {
		t.Fatal(err)
	}
	notDir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var warned error
	load := func(name, dir string, limit float64, mapped bool) {
		t.Helper()
		warned = nil
		r, err := NewRuntime(RuntimeOptions{Threads: 2, Device: "cpu", PackedDir: dir, PrecisionLimit: limit, Warn: func(err error) { warned = err }})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		before := ts.LiveTensors.Load()
		m, err := r.Load(openCheckpoint(t, shippedModel), precision)
		if limit != 0 && precision == Int8 {
			if !errors.Is(err, ErrPrecision) {
				t.Errorf("%s: %v", name, err)
			}
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m != nil {
			got, err := m.Margins(batch)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: other scores, or %v", name, err)
			}
			if id, err := m.Numerics(); err != nil || id != numerics {
				t.Errorf("%s: numerics %s, %v; want %s", name, id, err, numerics)
			}
			if (m.mapping != nil) != mapped {
				t.Errorf("%s: mapped is %v", name, !mapped)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if now := ts.LiveTensors.Load(); now > before {
			t.Errorf("%s: %d tensors live after Close, %d at the start", name, now, before)
		}
	}
	load("no directory", filepath.Join(notDir, "weights"), 0, false)
	load("a directory that cannot be written", "/proc/assay", 0, false)
	load("first", dir, 0, true)
	load("second", dir, 0, true)
	if precision == Int8 {
		load("a stricter limit", dir, 1e-9, false)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*."+string(precision)))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	if err := os.Truncate(files[0], 5000); err != nil {
		t.Fatal(err)
	}
	load("cut off", dir, 0, true)
	load("repaired", dir, 0, true)
	if warned != nil {
		t.Errorf("warned of %v", warned)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	load("a directory that all can write", dir, 0, false)
	if warned == nil || !strings.Contains(warned.Error(), dir+" is writable by all users") {
		t.Errorf("warned of %v", warned)
	}
}
