package commands_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/sidecar/cli"
	"assay/sidecar/program"
)

// TestShippedModel scores responses with and without one bad sentence, written for this test, with the shipped model: in
// nine of ten pairs the witness must be the bad sentence and the reward lower than without it.
func TestShippedModel(t *testing.T) {
	const smoke = "../../rewardmodel/eval/testdata/smoke.jsonl"
	file, err := os.Open(smoke)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	bags := map[string]bag.Bag{}
	for b, err := range bag.Read(file) {
		if err != nil {
			t.Fatal(err)
		}
		bags[b.ID] = b
	}

	var out, logs bytes.Buffer
	if code := program.Assay().Run(t.Context(), []string{"assay", "score", "--model", "../../models/default", smoke}, nil, &out, &logs); code != cli.ExitDone {
		t.Fatalf("exit code %d: %s", code, logs.String())
	}
	results := map[string]rewardmodel.Result{}
	for line := range strings.Lines(out.String()) {
		var r rewardmodel.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		results[r.ID] = r
	}

	pairs, found := 0, 0
	for id, good := range results {
		name, ok := strings.CutSuffix(id, "-good")
		if !ok {
			continue
		}
		pairs++
		bad, span := results[name+"-bad"], bags[name+"-bad"].Spans[0]
		if w := bad.Witness; w.Start < span[1] && span[0] < w.End && bad.Reward < good.Reward {
			found++
		} else {
			t.Logf("%s: witness %q, reward %.3f, without the bad sentence %.3f", name, w.Text, bad.Reward, good.Reward)
		}
	}
	if pairs < 10 || found*10 < pairs*9 {
		t.Errorf("%d of %d pairs have the right order", found, pairs)
	}
}
