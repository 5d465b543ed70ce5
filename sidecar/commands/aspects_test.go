package commands_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// twoRuleBags is a bag file with the labels of two aspects: "You fool." is rude, and "I cannot help." refuses.
func twoRuleBags(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	label := func(violation bool) string {
		if violation {
			return "violation"
		}
		return "compliant"
	}
	for i := range n {
		rude, refuses := i%2 == 0, i/2%2 == 0
		text := fmt.Sprintf("Train %d leaves at noon.", i)
		if rude {
			text += " You fool."
		}
		if refuses {
			text += " I cannot help."
		}
		fmt.Fprintf(&b, `{"id":"b%d","prompt":"When does train %d leave?","labels":{"rude":%q,"refusal":%q},"response":%q}`+"\n",
			i, i, label(rude), label(refuses), text)
	}
	path := filepath.Join(t.TempDir(), "aspects.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// A model with one unnamed rule becomes one with two rules. It scores each rule, is evaluated on each, and is trained
// further, on the labels of one and with the prompt.
func TestTrainAspects(t *testing.T) {
	bags, out := twoRuleBags(t, 80), filepath.Join(t.TempDir(), "two")
	args := append(processtest.TrainArgs(processtest.TinyModel(t, nil), bags, out, 6),
		"--aspects", "rude,refusal", "--loss", "cross-entropy", "--batch", "32", "--lr", "3e-3")
	_, stderr, code := assay(t, "", args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	man := processtest.Manifest(t, out)
	require.False(t, man.Context)
	require.Len(t, man.Aspects, 2)
	require.Equal(t, "rude", man.Aspects[0].Name)
	require.NotEqual(t, man.Aspects[0].Threshold, man.Aspects[1].Threshold)
	require.Equal(t, man.Aspects[0].Threshold, man.Threshold, "for readers that know one rule")

	line := `{"id":"a","prompt":"When does train 3 leave?","response":"Train 3 leaves at noon. You fool."}` + "\n"
	score := func(flags ...string) rewardmodel.Result {
		t.Helper()
		stdout, stderr, code := assay(t, line, append([]string{"score", "--model", out, "--threads", "1", "--precision", "fp32"}, flags...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		return processtest.Results(t, stdout)[0]
	}
	r := score("--aspects")
	require.Len(t, r.Aspects, 2)
	require.Greater(t, r.Aspects["rude"].Violation, r.Aspects["refusal"].Violation)
	require.Equal(t, min(r.Aspects["rude"].Reward, r.Aspects["refusal"].Reward), r.Reward)
	require.Contains(t, []string{"rude", "refusal"}, r.Aspect)
	require.Equal(t, r.Aspects["refusal"].Reward, score("--weight", "rude=0").Reward)
	require.Nil(t, score().Aspects)
	_, stderr, code = assay(t, line, "score", "--model", out, "--weight", "style=1")
	require.NotEqual(t, cli.ExitDone, code)
	require.Contains(t, stderr, "unknown aspect")

	stdout, stderr, code := assay(t, "", "eval", "--model", out, "--bags", bags, "--resamples", "0", "--threads", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	var report struct {
		BagAUROC float64 `json:"bag_auroc"`
		Aspects  map[string]struct {
			BagAUROC float64 `json:"bag_auroc"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Greater(t, report.Aspects["rude"].BagAUROC, 0.9)
	require.Greater(t, report.Aspects["refusal"].BagAUROC, 0.9)

	next := filepath.Join(t.TempDir(), "next")
	one := filepath.Join(t.TempDir(), "one.jsonl")
	text, err := os.ReadFile(bags)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(one, []byte(strings.ReplaceAll(string(text), `"refusal"`, `"unheard"`)), 0o600))
	_, stderr, code = assay(t, "", append(processtest.TrainArgs(out, one, next, 1), "--context", "--context-tokens", "16")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Contains(t, stderr, "no bag has a label for the aspect")
	require.Contains(t, stderr, "unheard")
	after := processtest.Manifest(t, next)
	require.Equal(t, man.Aspects[1], after.Aspects[1], "what was not trained keeps its threshold")
	require.True(t, after.Context)
	require.Equal(t, 16, after.ContextTokens)
	violations := map[float64]bool{}
	for _, prompt := range []string{"", `"prompt":"When does train 3 leave?",`, `"prompt":"Why?",`} {
		stdout, stderr, code := assay(t, `{"id":"a",`+prompt+`"response":"Train 3 leaves."}`+"\n", "score", "--model", next, "--threads", "1")
		require.Equal(t, cli.ExitDone, code, stderr)
		violations[processtest.Results(t, stdout)[0].Violation] = true
	}
	require.Len(t, violations, 3, "the prompt matters")
}

// Bags whose verdict on the whole response is unknown, since they have labels of some aspects only, count for these aspects.
func TestEvalOfSomeAspects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bags.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"id":"a","labels":{"rude":"compliant","other":"violation"},"response":"Gladly."}`+"\n"+
		`{"id":"b","labels":{"rude":"compliant"},"response":"Surely."}`+"\n"), 0o600))
	stdout, stderr, code := assay(t, "", "eval", "--model", twoAspects(t, "rude", "refusal"), "--bags", path, "--resamples", "0", "--threads", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	var report map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(stdout), &report), stdout)
	require.Len(t, report, 1)
	require.Contains(t, string(report["aspects"]), `"rude":{"avg_acc":`)
	require.NotContains(t, string(report["aspects"]), "refusal")
}

func TestTrainAspectErrors(t *testing.T) {
	model, bags := processtest.TinyModel(t, nil), twoRuleBags(t, 8)
	for want, flags := range map[string][]string{
		"is not the name of an aspect":               {"--aspects", "Rude"},
		"rude is given twice":                        {"--aspects", "rude,rude"},
		"no bag has a label for an aspect":           {"--aspects", "style,length"},
		"the probability of hiding the context is 2": {"--aspects", "rude,refusal", "--context", "--context-dropout", "2"},
		"the aspect style cannot be trained":         {"--aspects", "rude,refusal,style"},
		"--context-tokens is 1;":                     {"--aspects", "rude,refusal", "--context", "--context-tokens", "1"},
		"--context-tokens is -1;":                    {"--aspects", "rude,refusal", "--context", "--context-tokens=-1"},
		"--context-tokens is 10000;":                 {"--aspects", "rude,refusal", "--context", "--context-tokens", "10000"},
		`aspect rude: bags that cannot be learned`:   nil,
	} {
		file := bags
		if flags == nil {
			flags, file = []string{"--aspects", "rude,refusal"}, filepath.Join(t.TempDir(), "one.jsonl")
			require.NoError(t, os.WriteFile(file, []byte(`{"id":"a","labels":{"rude":"violation"},"response":"You fool."}`+"\n"), 0o600))
		}
		_, stderr, code := assay(t, "", append(processtest.TrainArgs(model, file, filepath.Join(t.TempDir(), "out"), 1), flags...)...)
		require.NotEqual(t, cli.ExitDone, code, want)
		require.Contains(t, stderr, want)
	}
}

// An aspect with labels of one kind is kept as it is, and does not prevent that another is trained.
func TestAspectWithLabelsOfOneKindIsKept(t *testing.T) {
	two, next := filepath.Join(t.TempDir(), "two"), filepath.Join(t.TempDir(), "next")
	bags := twoRuleBags(t, 16)
	_, stderr, code := assay(t, "", append(processtest.TrainArgs(processtest.TinyModel(t, nil), bags, two, 1), "--aspects", "rude,refusal")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	text, err := os.ReadFile(bags)
	require.NoError(t, err)
	one := filepath.Join(t.TempDir(), "one.jsonl")
	text = []byte(strings.ReplaceAll(string(text), `"refusal":"compliant"`, `"style":"compliant"`))
	require.NoError(t, os.WriteFile(one, text, 0o600))
	_, stderr, code = assay(t, "", processtest.TrainArgs(two, one, next, 1)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Contains(t, stderr, "the aspect is not trained")
	before, after := processtest.Manifest(t, two).Aspects, processtest.Manifest(t, next).Aspects
	require.Equal(t, before[1], after[1])
	require.NotEqual(t, before[0], after[0])

	// Nor is one with too few labels of each kind, unless all have too few.
	for each, kept := range map[string]bool{"4": true, "9": false} {
		few := filepath.Join(t.TempDir(), "few.jsonl")
		lines := strings.SplitAfter(string(text), "\n")
		lines[3] = strings.Replace(lines[3], `"style"`, `"refusal"`, 1)
		for i := range lines[:16] {
			if i > 3 {
				lines[i] = strings.Replace(lines[i], `"refusal"`, `"style"`, 1)
			}
		}
		require.NoError(t, os.WriteFile(few, []byte(strings.Join(lines, "")), 0o600))
		_, stderr, code = assay(t, "", append(processtest.TrainArgs(two, few, next, 1), "--min-each", each)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Equal(t, kept, strings.Contains(stderr, "too few labels"), stderr)
		if after := processtest.Manifest(t, next).Aspects; kept {
			require.Equal(t, before[1], after[1])
		}
	}
}

// An aspect without labels keeps the thresholds of the unnamed one that it starts from.
func TestUntrainedAspectKeepsTheThresholdsOfItsStart(t *testing.T) {
	model := processtest.TinyModel(t, func(_ *checkpoint.Config, man *checkpoint.Manifest) {
		man.Threshold, man.Thresholds = 0.8, map[string]float64{"max": 0.8, "mean": 0.3}
	})
	out := filepath.Join(t.TempDir(), "two")
	_, stderr, code := assay(t, "", append(processtest.TrainArgs(model, twoRuleBags(t, 8), out, 1), "--aspects", "first,refusal")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	first := processtest.Manifest(t, out).Aspects[0]
	require.Equal(t, "first", first.Name)
	require.Equal(t, 0.8, first.Threshold)
	require.Equal(t, map[string]float64{"max": 0.8, "mean": 0.3}, first.Thresholds)

	require.NoError(t, checkpoint.UpdateManifest(out, func(man *checkpoint.Manifest) { man.Aspects[1].Weight = 0 }))
	_, stderr, code = assay(t, "", append(processtest.TrainArgs(out, twoRuleBags(t, 8), filepath.Join(t.TempDir(), "one"), 1), "--aspects", "refusal")...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "weight 0 in --init")
}
