package encoder

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/segmenter"
)

// qualityBags returns responses: those of the evaluation data if it exists, otherwise the built-in texts in groups of three.
func qualityBags(t *testing.T) []string {
	t.Helper()
	root := os.Getenv("ASSAY_DATA")
	if root == "" {
		root = "../../../shared/data"
	}
	var bags []string
	for i := 0; i+2 < len(int8CheckTexts); i++ {
		bags = append(bags, strings.Join(int8CheckTexts[i:i+3], " "))
	}
	file, err := os.Open(filepath.Join(root, "imdb/test.jsonl.gz"))
	if err != nil {
		t.Log("no evaluation data: set ASSAY_DATA; the built-in texts serve")
		return bags
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(io.LimitReader(unpacked, 4<<20))
	lines.Buffer(nil, 1<<20)
	for n := 0; n < 300 && lines.Scan(); n++ {
		var review struct{ Text string }
		if err := json.Unmarshal(lines.Bytes(), &review); err != nil {
			t.Fatal(err)
		}
		bags = append(bags, review.Text[:min(len(review.Text), 400)])
	}
	var dialogues []struct{ Response string }
	data, err := os.ReadFile(filepath.Join(root, "diasafety/val.json"))
	if err == nil {
		err = json.Unmarshal(data, &dialogues)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dialogues {
		bags = append(bags, d.Response)
	}
	return bags
}

// TestPanelsQuality scores bags with the shipped model in fp32, and in int8 and bf16: the rewards must correlate, and
// almost all decisions must be the same.
func TestPanelsQuality(t *testing.T) {
	if testing.Short() {
		t.Skip("scores hundreds of texts three times")
	}
	for p, correlation := range map[Precision]float64{Int8: 0.998, BF16: 0.9999} {
		t.Run(string(p), func(t *testing.T) { compareWithFP32(t, p, correlation) })
	}
}

func compareWithFP32(t *testing.T, p Precision, leastCorrelation float64) {
	r := newRuntime(t)
	small, tok := shippedInPanels(t, r, p)
	exact := loadModel(t, r, shippedModel, FP32)
	ckpt, err := checkpoint.Open(shippedModel)
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	threshold := ckpt.Manifest.Threshold
	var batch []rewardmodel.Sequence
	var owner []int
	bags := qualityBags(t)
	for i, bag := range bags {
		spans, err := segmenter.Segment(t.Context(), bag)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range spans {
			seq := tok.Frame(tok.IDs(bag[span.Start:span.End]))
			batch, owner = append(batch, rewardmodel.Sequence{IDs: seq[:min(len(seq), 128)]}), append(owner, i)
		}
	}
	reward := func(m *Model) (rewards, scores []float64) {
		highest := make([]float64, len(bags))
		for i := range highest {
			highest[i] = math.Inf(-1)
		}
		for start := 0; start < len(batch); start += 64 {
			end := min(start+64, len(batch))
			margins, err := m.Margins(batch[start:end])
			if err != nil {
				t.Fatal(err)
			}
			for k, z := range margins {
				highest[owner[start+k]] = max(highest[owner[start+k]], float64(z))
				scores = append(scores, violation(z))
			}
		}
		t0 := math.Log(threshold / (1 - threshold))
		for i := range highest {
			highest[i] = min(max(t0-highest[i], -20), 20)
		}
		return highest, scores
	}
	want, wantScores := reward(exact)
	got, gotScores := reward(small)
	flips := 0
	for i := range want {
		if (want[i] >= 0) != (got[i] >= 0) {
			flips++
		}
	}
	var moved, worst float64
	for i := range wantScores {
		d := math.Abs(wantScores[i] - gotScores[i])
		moved, worst = moved+d/float64(len(wantScores)), max(worst, d)
	}
	c := correlation(want, got)
	t.Logf("%d bags of %d texts: correlation of rewards %.6f, %d verdicts flip; violation moves by %.5f, at most %.4f",
		len(bags), len(batch), c, flips, moved, worst)
	if c < leastCorrelation {
		t.Errorf("rewards correlate by %.5f, want %g", c, leastCorrelation)
	}
	if float64(flips) >= 0.005*float64(len(bags)) {
		t.Errorf("%d of %d decisions change, want fewer than 0.5 %%", flips, len(bags))
	}
}

func correlation(a, b []float64) float64 {
	var ma, mb float64
	for i := range a {
		ma, mb = ma+a[i]/float64(len(a)), mb+b[i]/float64(len(b))
	}
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+(a[i]-ma)*(b[i]-mb), aa+(a[i]-ma)*(a[i]-ma), bb+(b[i]-mb)*(b[i]-mb)
	}
	return ab / math.Sqrt(aa*bb)
}
