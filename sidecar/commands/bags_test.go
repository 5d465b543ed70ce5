package commands_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// sentenceFile writes n different sentences, one per line.
func sentenceFile(t *testing.T, words string, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s %d.\n", words, i)
	}
	path := filepath.Join(t.TempDir(), "sentences.txt")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

func TestBagsOfCustomSentences(t *testing.T) {
	good, bad := sentenceFile(t, "Have a good trip", 400), sentenceFile(t, "You fool", 80)
	out := filepath.Join(t.TempDir(), "bags")
	args := []string{"bags", "--normal", good, "--anomalous", bad, "--out", out, "--sigma-micro", "2,4", "--seed", "5,6"}
	stdout, stderr, code := assay(t, "", args...)
	require.Equal(t, cli.ExitDone, code, stderr)

	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 8)
	sizes := map[string]int{}
	for _, line := range lines {
		var told countedBags
		require.NoError(t, json.Unmarshal([]byte(line), &told))
		counted := countBags(processtest.LoadBags(t, told.File))
		counted.File = told.File
		require.Equal(t, counted, told)
		name, err := filepath.Rel(out, told.File)
		require.NoError(t, err)
		sizes[filepath.ToSlash(name)] = told.Violations
	}
	require.Equal(t, sizes["sigma4/train.5.jsonl"], sizes["sigma2/train.6.jsonl"], "a sweep trains on as many bags")
	require.Greater(t, sizes["sigma2/test.5.jsonl"], sizes["sigma4/test.5.jsonl"])
	entries, err := os.ReadDir(filepath.Join(out, "sigma2"))
	require.NoError(t, err)
	require.Len(t, entries, 4, "no temporary file is left")

	first, err := os.ReadFile(filepath.Join(out, "sigma2", "train.5.jsonl"))
	require.NoError(t, err)
	_, stderr, code = assay(t, "", args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	again, err := os.ReadFile(filepath.Join(out, "sigma2", "train.5.jsonl"))
	require.NoError(t, err)
	require.Equal(t, first, again)

	for _, number := range []string{"3", "max"} {
		stdout, stderr, code = assay(t, "", append(args, "--bags", number, "--test-bags", "4", "--sigma-micro", "2", "--seed", "0")...)
		require.Equal(t, cli.ExitDone, code, stderr)
		got := countBags(processtest.LoadBags(t, filepath.Join(out, "sigma2", "train.0.jsonl")))
		if number == "max" {
			require.GreaterOrEqual(t, got.Violations, 50, stdout)
		} else {
			require.Equal(t, 3, got.Violations)
		}
		require.Equal(t, 4, countBags(processtest.LoadBags(t, filepath.Join(out, "sigma2", "test.0.jsonl"))).Compliant)
	}
}

func TestBagsOfReviews(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, "amazon_blitzer"), 0o700))
	for _, domain := range []string{"books", "dvd", "electronics", "kitchen"} {
		for kind, words := range map[string]string{"positive": "I like it. Buy it", "negative": "It broke. Keep away"} {
			var b strings.Builder
			for i := range 20 {
				fmt.Fprintf(&b, "<review>\n<review_text>\n%s %s %d.\n</review_text>\n</review>\n", words, domain, i)
			}
			name := filepath.Join(data, "amazon_blitzer", domain+"."+kind+".review")
			require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o600))
		}
	}
	out := t.TempDir()
	_, stderr, code := assay(t, "", "bags", "--dataset", "amazon-sentences", "--data", data, "--out", out, "--bags", "7", "--seed", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	bags := processtest.LoadBags(t, filepath.Join(out, "train.1.jsonl"))
	require.Len(t, bags, 14)
	require.Equal(t, bag.Violation, bags[0].Label)
	segments, err := bags[0].Segments(t.Context(), 0, nil)
	require.NoError(t, err)
	require.Len(t, segments, 2)
	require.FileExists(t, filepath.Join(out, "test.1.jsonl"))
}

func TestBagsErrors(t *testing.T) {
	good, bad := sentenceFile(t, "Good", 40), sentenceFile(t, "Bad", 20)
	own := []string{"--normal", good, "--anomalous", bad}
	for name, c := range map[string]struct{ args, says []string }{
		"no source":        {nil, []string{"--dataset", "--normal"}},
		"two sources":      {append(own, "--dataset", "sst2"), []string{"either --dataset"}},
		"half a source":    {[]string{"--normal", good}, []string{"--anomalous"}},
		"missing file":     {[]string{"--normal", "nowhere", "--anomalous", bad}, []string{"--normal", "nowhere"}},
		"no data":          {[]string{"--dataset", "sst2", "--data", "nowhere"}, []string{"stsa.binary.train", "ASSAY_DATA"}},
		"unknown data":     {[]string{"--dataset", "sst3"}, []string{"sst3", "imdb"}},
		"no reviews":       {[]string{"--dataset", "sst2-sentences"}, []string{"sst2-sentences", "imdb"}},
		"odd number":       {append(own, "--bags", "many"), []string{"--bags", "many"}},
		"no bags":          {append(own, "--bags", "0"), []string{"--bags"}},
		"too many bags":    {append(own, "--bags", "30"), []string{"--bags is 30", "allow"}},
		"a sigma of 0":     {append(own, "--sigma-micro", "0"), []string{"sigma_micro is 0"}},
		"too few for it":   {append(own, "--sigma-micro", "30"), []string{"normal ones", "give more"}},
		"no sigma":         {append(own, "--sigma-micro="), []string{"--sigma-micro"}},
		"a negative count": {append(own, "--test-bags=-1"), []string{"no limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			stdout, stderr, code := assay(t, "", append([]string{"bags", "--out", out}, c.args...)...)
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Empty(t, stdout)
			require.NoDirExists(t, out)
			for _, part := range c.says {
				require.Contains(t, stderr, part)
			}
		})
	}
}

// countedBags is the output of assay bags for a file.
type countedBags struct {
	File       string `json:"file"`
	Violations int    `json:"violations"`
	Compliant  int    `json:"compliant"`
	Instances  int    `json:"instances,omitzero"`
}

func countBags(bags []bag.Bag) (n countedBags) {
	for _, b := range bags {
		if b.Label == bag.Violation {
			n.Violations++
		} else {
			n.Compliant++
		}
		n.Instances += len(b.Instances)
	}
	return n
}
