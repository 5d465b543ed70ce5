package segmenter

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestUniversalDependencies measures the exact-span F1 on the development
// parts of two Universal Dependencies treebanks, kept outside the repository
// because of their licenses. The thresholds are just below the results of the rules.
func TestUniversalDependencies(t *testing.T) {
	dir := os.Getenv("ASSAY_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	for _, c := range []struct {
		treebank string
		least    float64
	}{{"ewt", 0.905}, {"gum", 0.965}} {
		t.Run(c.treebank, func(t *testing.T) {
			file, err := os.Open(filepath.Join(dir, "ud", c.treebank+".dev.jsonl"))
			if err != nil {
				t.Skipf("no treebank here, set ASSAY_DATA to the directory that contains ud/: %v", err)
			}
			defer file.Close()
			var right, found, gold int
			lines := bufio.NewScanner(file)
			lines.Buffer(nil, 1<<24)
			for lines.Scan() {
				var doc struct {
					Text  string
					Spans [][2]int
				}
				if err := json.Unmarshal(lines.Bytes(), &doc); err != nil {
					t.Fatal(err)
				}
				var offset []int // of each code point, in bytes
				for i := range doc.Text {
					offset = append(offset, i)
				}
				offset = append(offset, len(doc.Text))
				want := make(map[Span]bool)
				for _, s := range doc.Spans {
					want[Span{offset[s[0]], offset[s[1]]}] = true
				}
				spans := segment(doc.Text)
				checkCover(t, doc.Text, spans)
				for _, s := range spans {
					if want[s] {
						right++
					}
				}
				found += len(spans)
				gold += len(doc.Spans)
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			f1 := 2 * float64(right) / float64(found+gold)
			t.Logf("F1 %.4f", f1)
			if f1 < c.least {
				t.Errorf("F1 %.4f, want at least %.3f", f1, c.least)
			}
		})
	}
}
