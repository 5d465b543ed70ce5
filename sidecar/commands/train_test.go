package commands_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

func TestTrainWritesAModelThatScores(t *testing.T) {
	out, model := filepath.Join(t.TempDir(), "mine"), processtest.TinyModel(t, nil)
	require.NoError(t, os.WriteFile(filepath.Join(model, "regression.jsonl"), []byte("{}\n"), 0o600))
	_, stderr, code := assay(t, "", processtest.TrainArgs(model, processtest.BagFile(t, 20), out, 1)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Contains(t, stderr, "the rewards of compliant responses and of violations hardly differ", "after one epoch")
	require.NoDirExists(t, out+".training")
	require.FileExists(t, filepath.Join(out, "regression.jsonl"), "it goes to the descendants")

	trained, err := checkpoint.Open(out)
	require.NoError(t, err)
	defer trained.Close()
	require.NoError(t, trained.VerifySHA256(t.Context()))
	require.Equal(t, "bfgpu", trained.Manifest.Method)
	require.Equal(t, "tiny-1", trained.Manifest.Base)
	require.Regexp(t, `^mine-\d{8}-[0-9a-f]{8}$`, trained.Manifest.Version)
	require.Greater(t, trained.Manifest.Threshold, 0.0)
	require.Less(t, trained.Manifest.Threshold, 1.0)

	stdout, stderr, code := assay(t, "One. Two.\n", "score", "--text", "--model", out, "--threads", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	got := processtest.Results(t, stdout)
	require.Len(t, got, 1)
	require.Len(t, got[0].Instances, 2)
	require.Equal(t, trained.Manifest.Threshold, got[0].Threshold)
}

func TestTrainResumesAfterItsLastCompleteEpoch(t *testing.T) {
	for name, flags := range map[string][]string{
		"one aspect":                  nil,
		"two aspects and the prompt":  {"--aspects", "rude,refusal", "--context"},
		"an aspect without any label": {"--aspects", "first,refusal", "--context"},
	} {
		t.Run(name, func(t *testing.T) {
			bags := processtest.BagFile(t, 20)
			if flags != nil {
				bags = twoRuleBags(t, 20)
			}
			resumes(t, bags, flags...)
		})
	}
}

// resumes checks that a run that is canceled in its second epoch ends with the weights of an uninterrupted one.
func resumes(t *testing.T, bags string, flags ...string) {
	t.Helper()
	model, out := processtest.TinyModel(t, nil), filepath.Join(t.TempDir(), "resumed")
	args := append(processtest.TrainArgs(model, bags, out, 2), flags...)

	var c program.Commands
	parser, err := program.Assay().Parser(&c, nil, nil)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = c.Train.Train(ctx, zerolog.Nop(), func(now train.Progress) {
		if now.Epoch == 2 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, out)
	require.FileExists(t, filepath.Join(out+".training", "state.json"))

	_, stderr, code := assay(t, "", args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.NotContains(t, stderr, `"epoch":1,`)
	require.Contains(t, stderr, `"epoch":2,`)
	require.NoDirExists(t, out+".training")

	unbroken := filepath.Join(t.TempDir(), "unbroken")
	_, stderr, code = assay(t, "", append(processtest.TrainArgs(model, bags, unbroken, 2), flags...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, processtest.Weights(t, unbroken), processtest.Weights(t, out))
}

// A run that is killed repeatedly ends with the weights and the thresholds of an uninterrupted one.
func TestTrainSurvivesKillNine(t *testing.T) {
	model, bags := processtest.TinyModel(t, nil), processtest.BagFile(t, 60)
	out := filepath.Join(t.TempDir(), "killed")
	args := processtest.TrainArgs(model, bags, out, 4)
	for _, epochs := range []string{`"epochs":1`, `"epochs":2`, `"epochs":3`} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), processtest.ChildVariable+"=1")
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool {
			state, err := os.ReadFile(filepath.Join(out+".training", "state.json"))
			return err != nil && processtest.PathExists(out) || strings.Contains(string(state), epochs)
		}, processtest.Timeout, time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed, or complete before that
	}
	_, stderr, code := assay(t, "", args...)
	require.Equal(t, cli.ExitDone, code, stderr)

	unbroken := filepath.Join(t.TempDir(), "unbroken")
	_, stderr, code = assay(t, "", processtest.TrainArgs(model, bags, unbroken, 4)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, processtest.Weights(t, unbroken), processtest.Weights(t, out))
	require.Equal(t, processtest.Manifest(t, unbroken).Thresholds, processtest.Manifest(t, out).Thresholds)
}

func TestTrainErrors(t *testing.T) {
	model, bags := processtest.TinyModel(t, nil), processtest.BagFile(t, 4)
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	require.NoError(t, os.WriteFile(bad, []byte(`{"id":"a","label":"violation","response":"You fool."}`+"\n"+`{"label":"odd"}`+"\n"), 0o600))
	for name, c := range map[string]struct {
		model, bags string
		says        []string
	}{
		"a bad line":  {model, bad, []string{"--bags", "bad.jsonl: line 2"}},
		"no bags":     {model, "nowhere.jsonl", []string{"--bags", "nowhere.jsonl"}},
		"one label":   {model, processtest.BagFile(t, 1), []string{"--bags", `add bags of label \"violation\"`}},
		"no model":    {"nowhere", bags, []string{"--init nowhere", filepath.Join("models", "nowhere")}},
		"not a model": {"testdata", bags, []string{"--init", "config.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			_, stderr, code := assay(t, "", processtest.TrainArgs(c.model, c.bags, out, 1)...)
			require.Equal(t, cli.ExitUsage, code, stderr)
			for _, part := range c.says {
				require.Contains(t, stderr, part)
			}
			require.NoDirExists(t, out)
		})
	}
}

// Unusual bags are logged as warnings, and the training run continues.
func TestTrainWarnsAboutUnusualBags(t *testing.T) {
	bags := processtest.BagFile(t, 8)
	text, err := os.ReadFile(bags)
	require.NoError(t, err)
	odd := `{"id":"c1","label":"violation","response":"Train 0 leaves at noon. Have a good trip."}` + "\n" +
		`{"id":"e1","label":"compliant","response":"  "}` + "\n" + `{"id":"s1","label":"violation","response":"You fool."}` + "\n"
	require.NoError(t, os.WriteFile(bags, append(text, odd...), 0o600))
	out := filepath.Join(t.TempDir(), "mine")
	_, stderr, code := assay(t, "", processtest.TrainArgs(processtest.TinyModel(t, nil), bags, out, 1)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, part := range []string{`"b0","c1"`, "other label", `"e1"`, `"s1"`} {
		require.Contains(t, stderr, part)
	}
}

// A non-finite loss stops the run with an error that names the step, the learning rate and the fix.
func TestTrainStopsWhenTheLossDiverges(t *testing.T) {
	out := filepath.Join(t.TempDir(), "mine")
	args := append(processtest.TrainArgs(processtest.TinyModel(t, nil), processtest.BagFile(t, 20), out, 3), "--lr", "1e30")
	_, stderr, code := assay(t, "", args...)
	require.Equal(t, cli.ExitFailed, code, stderr)
	require.Contains(t, stderr, "lower the learning rate")
	require.NoDirExists(t, out)
}

// The same seed and threads give the same bytes, whatever the method.
func TestTrainIsReproducible(t *testing.T) {
	model, bags := processtest.TinyModel(t, nil), processtest.BagFile(t, 20)
	for _, more := range [][]string{
		{"--method", "bfgpu"}, {"--method", "bfgpu", "--weights", "paper", "--precision", "bf16"},
		{"--method", "nnpu", "--pseudo-labels", "true", "--fold", "0.2"}, {"--method", "mil-max", "--embeddings", "touched"},
	} {
		var first []byte
		for range 2 {
			out := filepath.Join(t.TempDir(), "mine")
			_, stderr, code := assay(t, "", append(processtest.TrainArgs(model, bags, out, 1), more...)...)
			require.Equal(t, cli.ExitDone, code, stderr)
			if first == nil {
				first = processtest.Weights(t, out)
				continue
			}
			require.Equal(t, first, processtest.Weights(t, out), more)
		}
	}
}

// The threshold of a model is chosen again from compliant bags only: an aspect without labels keeps what it has.
func TestTrainChoosesAThresholdForFalseAlarms(t *testing.T) {
	model := processtest.TinyModel(t, func(cfg *checkpoint.Config, m *checkpoint.Manifest) {
		cfg.NumLabels, cfg.Labels = 4, checkpoint.AspectLabels([]string{"rude", "refusal"})
		m.Threshold, m.Thresholds = 0.5, nil
		m.Aspects = []checkpoint.Aspect{{Name: "rude", Weight: 1, Threshold: 0.5, LengthSlope: 2}, {Name: "refusal", Weight: 1, Threshold: 0.4, LengthSlope: 1.5}}
	})
	var bags strings.Builder
	for i := range 300 {
		fmt.Fprintf(&bags, `{"id":"b%d","labels":{"rude":"compliant"},"response":%q}`+"\n", i, strings.Repeat(fmt.Sprintf("Train %d leaves. ", i), 1+i%5))
	}
	file := filepath.Join(t.TempDir(), "bags.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(bags.String()), 0o600))
	out := filepath.Join(t.TempDir(), "out")
	args := append(processtest.TrainArgs(model, file, out, 0), "--false-alarms", "0.1") // the rule of a model with length slopes
	_, stderr, code := assay(t, "", args...)
	require.Equal(t, cli.ExitUsage, code, "calibration needs violations")
	require.Contains(t, stderr, "label")

	_, stderr, code = assay(t, "", append(args, "--no-calibrate")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	aspects := processtest.Manifest(t, out).Aspects
	require.Equal(t, []float64{0.4, 1.5}, []float64{aspects[1].Threshold, aspects[1].LengthSlope}, "it has no labels")
	require.NotEqual(t, 0.5, aspects[0].Threshold)
	require.GreaterOrEqual(t, aspects[0].LengthSlope, 0.0)
	require.LessOrEqual(t, aspects[0].LengthSlope, 3.0)

	stdout, stderr, code := assay(t, "", "eval", "--bags", file, "--model", out, "--threads", "1", "--precision", "fp32", "--resamples", "0")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Regexp(t, `"recall_compliant":0\.9[4-6]`, stdout, "two aspects share a tenth")
}
