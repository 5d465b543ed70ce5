package checkpoint

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/rewardmodel"
)

func TestManifest(t *testing.T) {
	dir := copyDirectory(t, "bert-two")
	writeAll(t, []byte(`{"version":"v7","created":"2026-01-02T03:04:05Z","method":"bfgpu","threshold":0.25,"thresholds":{"mean":0.1,"max":1},"length_slope":0.75,
		"sigma_micro":5.5,"sigma_macro":1,"segmenter":"1","max_length":20,"context":true,"base":"b","data":["x","y"],
		"calibration":{"max":{"from":[-1,0,2],"to":[-3,0,1]}},"metrics":{"avg_acc":0.8},"sha256":{},"later":{"a":[1,2]}}`), dir, manifestFile)
	c := mustOpen(t, dir)
	m := c.Manifest
	if m.Version != "v7" || !m.Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || m.Method != "bfgpu" || m.Threshold != 0.25 ||
		m.Thresholds["mean"] != 0.1 || m.LengthSlope != 0.75 || m.AspectList()[0].LengthSlope != 0.75 || m.SigmaMicro != 5.5 || m.SigmaMacro != 1 || m.Segmenter != "1" || !m.Context || m.Base != "b" ||
		len(m.Data) != 2 || m.Metrics["avg_acc"] != 0.8 || m.Calibration["max"].At(2) != 1 || !strings.Contains(string(m.Unknown), `"later"`) {
		t.Errorf("got %+v", m)
	}
	if c.MaxLength() != 20 {
		t.Errorf("max length %d", c.MaxLength())
	}
}

func TestManifestWithoutThreshold(t *testing.T) {
	dir := copyDirectory(t, "bert-two")
	writeAll(t, []byte(`{"version":"v1"}`), dir, manifestFile)
	if m := mustOpen(t, dir).Manifest; m.Threshold != DefaultThreshold {
		t.Errorf("threshold %v", m.Threshold)
	}
}

func TestManifestRejects(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"not JSON":             {`{`, "assay.json"},
		"threshold over one":   {`{"threshold":1.5}`, "threshold is 1.5"},
		"threshold below zero": {`{"threshold":-0.1}`, "threshold is -0.1"},
		"threshold as text":    {`{"threshold":"0.5"}`, "threshold"},
		"threshold infinite":   {`{"threshold":1e999}`, "threshold"},
		"an aggregate":         {`{"thresholds":{"mean":2}}`, "thresholds.mean is 2"},
		"length_slope":         {`{"length_slope":-1}`, "length_slope is -1; it must be in [0,10]"},
		"large length_slope":   {`{"length_slope":10.5}`, "length_slope is 10.5"},
		"calibration":          {`{"calibration":{"mean":{"from":[0,1],"to":[0,-1]}}}`, "calibration.mean: bad calibration: knot 1"},
		"sigma_micro":          {`{"sigma_micro":-1}`, "sigma_micro is -1"},
		"sigma_macro":          {`{"sigma_macro":-1}`, "sigma_macro is -1"},
		"max_length":           {`{"max_length":23}`, "max_length is 23; the model takes 3 to 22"},
		"negative max_length":  {`{"max_length":-1}`, "max_length is -1"},
		"created":              {`{"created":"yesterday"}`, "created"},
		"sum of another file":  {`{"sha256":{"../x":"00"}}`, "not the name of a file in the directory"},
		"short sum":            {`{"sha256":{"config.json":"00"}}`, "config.json: not a SHA-256"},
		"sum not hexadecimal":  {`{"sha256":{"config.json":"` + strings.Repeat("zz", 32) + `"}}`, "config.json: not a SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDirectory(t, "bert-two")
			writeAll(t, []byte(test.text), dir, manifestFile)
			_, err := Open(dir)
			wantError(t, err, ErrDamaged, test.want)
		})
	}
}

func TestVerifySHA256(t *testing.T) {
	if err := mustOpen(t, filepath.Join("testdata", "bert-two")).VerifySHA256(t.Context()); err != nil {
		t.Errorf("without sums: %v", err)
	}

	dir := filepath.Join(t.TempDir(), "m")
	writeCopy(t, dir, "bert-two")
	c := mustOpen(t, dir)
	if err := c.VerifySHA256(t.Context()); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, c.VerifySHA256(canceled), context.Canceled, "config.json")

	file := readFile(t, dir, weightsFile)
	file[len(file)-1] ^= 1
	writeAll(t, file, dir, weightsFile)
	wantError(t, c.VerifySHA256(t.Context()), ErrDamaged, weightsFile+": its SHA-256 is")

	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	wantError(t, c.VerifySHA256(t.Context()), fs.ErrNotExist, "config.json")

	delete(c.Manifest.SHA256, weightsFile)
	wantError(t, c.VerifySHA256(t.Context()), ErrDamaged, "sha256 does not list "+weightsFile)
}

// TestContent checks that the checksum of the content is that of every file, and of nothing else.
func TestContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	writeCopy(t, dir, "bert-two")
	content := func() [32]byte {
		t.Helper()
		sum, err := mustOpen(t, dir).Content(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := content()
	writeAll(t, []byte("notes"), dir, "README.md")
	if content() != before {
		t.Error("a file that no model is loaded from changes it")
	}
	for _, name := range []string{"config.json", manifestFile, weightsFile} {
		file := readFile(t, dir, name)
		if name == weightsFile {
			file[len(file)-1] ^= 1
		} else {
			file = append(file, ' ')
		}
		writeAll(t, file, dir, name)
		after := content()
		if after == before {
			t.Errorf("%s does not change it", name)
		}
		before = after
	}
	writeAll(t, []byte("[PAD]"), dir, "vocab.txt")
	if content() == before {
		t.Error("the vocabulary does not change it")
	}
}

// FuzzParseManifest reads arbitrary files: an accepted manifest is in its ranges, and is
// the same when it is written and read again.
func FuzzParseManifest(f *testing.F) {
	cfg, err := parseConfig([]byte(tinyConfig))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"version":"v7","created":"2026-01-02T03:04:05Z","threshold":0.25,"thresholds":{"mean":0.1,"max":1},"length_slope":0.75,
		"sigma_micro":5.5,"max_length":8,"calibration":{"max":{"from":[-1,0,2],"to":[-3,0,1]}},"metrics":{"avg_acc":0.8},"sha256":{},"later":{"a":[1,2]}}`))
	f.Add([]byte(`{"threshold":1e-320,"aspects":[{"name":"a","threshold":0.5},{"name":"b","threshold":0.1}],"combination":"mean"}`))
	f.Add([]byte(`{"sha256":{"../x":"ab"},"threshold":-0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data, cfg)
		if err != nil {
			if len(err.Error()) > 800 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		if !(m.Threshold >= 0 && m.Threshold <= 1) || m.LengthSlope < 0 || m.LengthSlope > rewardmodel.MaxLengthSlope || m.MaxLength > cfg.Positions() {
			t.Errorf("accepted threshold %v, slope %v, length %d", m.Threshold, m.LengthSlope, m.MaxLength)
		}
		written, err := json.Marshal(m, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseManifest(written, cfg)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if got, err := json.Marshal(again, json.Deterministic(true)); err != nil || string(got) != string(written) {
			t.Fatalf("got %s (%v), want %s", got, err, written)
		}
	})
}
