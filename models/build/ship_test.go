package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
)

// Handwritten files next to the model are kept when it is rebuilt.
func TestShipKeepsWhatIsWritten(t *testing.T) {
	cfg := config{work: t.TempDir(), out: filepath.Join(t.TempDir(), "default")}
	trained := filepath.Join(cfg.work, "trained")
	if err := os.CopyFS(trained, os.DirFS("../../rewardmodel/checkpoint/testdata/roberta-two")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(trained, "assay.json"), `{"version":"v9","threshold":0.4}`)
	for set, names := range shipped {
		metrics := map[string]float64{}
		for _, name := range names {
			metrics[name] = 0.5
		}
		text, err := json.Marshal(metrics)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(cfg.work, "test-"+set+"-metrics.json"), string(text))
	}
	if err := os.CopyFS(cfg.out, os.DirFS(trained)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(cfg.out, "README.md"), "card")
	write(t, filepath.Join(cfg.out, "policy.md"), "policy")
	write(t, filepath.Join(cfg.out, regressionSet), "bags")
	if err := ship(cfg, io.Discard); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"README.md": "card", "policy.md": "policy", regressionSet: "bags"} {
		if got, err := os.ReadFile(filepath.Join(cfg.out, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	c, err := checkpoint.Open(cfg.out)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Manifest.SHA256[regressionSet] == "" || c.Manifest.SHA256["README.md"] != "" {
		t.Errorf("checksums of %v", c.Manifest.SHA256)
	}
	if err := c.VerifySHA256(t.Context()); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The regression set that ships is balanced and says where each violation lies.
func TestRegressionSet(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "default", regressionSet))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ids, count := map[string]bool{}, map[bag.Label]int{}
	for b, err := range bag.Read(file) {
		if err != nil {
			t.Fatal(err)
		}
		segments, err := b.Segments(t.Context(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ids[b.ID] || len(segments) < 2 || len(segments) > 6 || (b.Label == bag.Violation) != (len(b.Spans) == 1) {
			t.Errorf("%s: %d utterances, spans %v, or the id is there twice", b.ID, len(segments), b.Spans)
		}
		marked := 0
		for _, gold := range b.Gold(segments) {
			if gold {
				marked++
			}
		}
		if marked != len(b.Spans) {
			t.Errorf("%s: %d utterances are marked", b.ID, marked)
		}
		ids[b.ID] = true
		count[b.Label]++
	}
	if count[bag.Violation] != 60 || count[bag.Compliant] != 60 {
		t.Errorf("got %v", count)
	}
}
