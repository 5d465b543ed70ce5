package fleet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// aspectWords are the number of words of which three in a sentence violate the aspect "refusal".
const aspectWords = 5

// aspectBags returns bags with labels of both aspects: "toxicity" is that of processtest.WordBags, and every other pair
// violates "refusal".
func aspectBags(prefix string, n int, seed uint64) []bag.Bag {
	bags := processtest.WordBags(prefix, n, seed)
	for i := range bags {
		b := &bags[i]
		b.Labels = map[string]bag.Label{"toxicity": b.Label, "refusal": bag.Compliant}
		b.Label = ""
		first := 10 // of the words of the last sentence
		if i/2%2 == 1 {
			b.Labels["refusal"], first = bag.Violation, processtest.InventedWords-aspectWords
		}
		var words []string
		for w := range 4 {
			words = append(words, processtest.Invented(first+(i*7+w*3)%aspectWords))
		}
		b.Response += strings.Join(words, " ") + "."
	}
	return bags
}

// named keeps the labels of some aspects.
func named(b bag.Bag, aspects ...string) bag.Bag {
	labels := map[string]bag.Label{}
	for _, name := range aspects {
		labels[name] = b.Labels[name]
	}
	b.Labels = labels
	return b
}

// aspectAUROC returns the bag AUROC of the serving version in each aspect.
func aspectAUROC(t *testing.T, p *processtest.Process, bags []bag.Bag) map[string]float64 {
	t.Helper()
	scores, violation := map[string][]float64{}, map[string][]bool{}
	for part := range slices.Chunk(bags, 100) {
		var responses []string
		for _, b := range part {
			responses = append(responses, fmt.Sprintf(`{"response":%q}`, b.Response))
		}
		answer := processtest.Post(t, p.Ready.HTTP, `{"options":{"aspects":true},"responses":[`+strings.Join(responses, ",")+`]}`)
		for i, r := range answer.Results {
			for name, a := range r.Aspects {
				scores[name] = append(scores[name], a.Violation)
				violation[name] = append(violation[name], part[i].Labels[name] == bag.Violation)
			}
		}
	}
	out := map[string]float64{}
	for name := range scores {
		out[name] = eval.AUROC(scores[name], violation[name])
	}
	return out
}

// Labels of single aspects train a model that has two, and the gate judges both. It is lenient, because a model as small does
// not learn both reliably.
func TestFeedbackTrainsAspects(t *testing.T) {
	dir := t.TempDir()
	first, model := filepath.Join(dir, "bags.jsonl"), filepath.Join(dir, "two")
	var lines strings.Builder
	for _, b := range aspectBags("start", 60, 5) {
		lines.WriteString(line(t, b) + "\n")
	}
	require.NoError(t, os.WriteFile(first, []byte(lines.String()), 0o600))
	_, stderr, code := assay(t, "", "train", "--init", processtest.TinyBackbone(t), "--bags", first, "--out", model, "--epochs", "1",
		"--lr", "1e-5", "--precision", "fp32", "--threads", "1", "--aspects", "toxicity,refusal") // it knows next to nothing
	require.Equal(t, cli.ExitDone, code, stderr)

	p := processtest.Serve(t, model, t.TempDir(), "--holdout-share", fmt.Sprint(holdoutShare), "--train-min-bags", "150",
		"--holdout-min", "10", "--train-min-each", "20", "--train-cooldown", "1s", "--train-drift", "0", "--train-disagreement", "0", "--keep-scored", "1h",
		"--train-epochs", "6", "--train-lr", "3e-4", "--train-threads", "1", "--gate-max-shift", "1", "--gate-margin", "0.9")
	heldOut := aspectBags("test", 300, 9)
	before := aspectAUROC(t, p, heldOut)
	require.Len(t, before, 2)
	nc, _ := p.JetStream(t)
	happened := followEvents(t, p)
	labels := newLabelingTool(p, nc)
	items := []string{`{"id":"typo","labels":{"toxcity":"violation"},"response":"Who is there?"}`}
	for i, b := range aspectBags("one", 500, 1) {
		items = append(items, line(t, [](bag.Bag){b, named(b, "toxicity"), named(b, "refusal")}[i%3]))
	}
	require.Equal(t, len(items), labels.send(t, items...).Accepted)
	rejected := labels.send(t, `{"id":"x","labels":{"No aspect":"violation"},"response":"Who?"}`).Rejected
	require.Len(t, rejected, 1)
	require.Contains(t, rejected[0].Message, `labels: "No aspect" is not the name of an aspect`)

	ended := happened.wait(t, trainingTime, 1, retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed)
	require.Equal(t, retrain.EventPromoted, ended.Kind, happened)
	requireServed(t, p, ended.Version)
	after := aspectAUROC(t, p, heldOut)
	t.Logf("from %v to %v", before, after)
	require.Len(t, after, 2)
	require.Greater(t, max(after["toxicity"], after["refusal"]), 0.8)

	show, stderr, code := assay(t, "", "models", "show", ended.Version, "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, name := range []string{"toxicity", "refusal"} {
		require.Contains(t, field(t, show, "aspects"), `"`+name+`"`)
		require.Equal(t, "true", field(t, show, "gate.aspects."+name+".judged"))
		require.NotEqual(t, "0", field(t, show, "data.aspects."+name+".held_out"))
	}
	var stats feedback.Stats
	_, body := processtest.Get(t, p.Ready.HTTP+"/v1/feedback")
	require.NoError(t, json.Unmarshal([]byte(body), &stats), body)
	require.Len(t, stats.Aspects, 3)
	require.Equal(t, 1, stats.Aspects["toxcity"].Bags+stats.Aspects["toxcity"].HeldOut)
	require.True(t, stats.Aspects["toxcity"].Unknown)

	// A client that does not ask for aspects sees none, and what to label next names one.
	plain := score(t, p, "", heldOut[:50])
	for _, r := range plain.Results {
		require.Nil(t, r.Aspects)
		require.NotEmpty(t, r.Aspect)
		for _, i := range r.Instances {
			require.Equal(t, rewardmodel.Instance{Message: i.Message, Start: i.Start, End: i.End, Violation: i.Violation}, i)
		}
	}
	stdout, stderr, code := assay(t, "", "feedback", "candidates", "-n", "5", "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
	var answer struct {
		Candidates []feedback.Candidate `json:"candidates"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &answer))
	require.Len(t, answer.Candidates, 5)
	for _, c := range answer.Candidates {
		require.Contains(t, []string{"toxicity", "refusal"}, c.Aspect)
	}
}
