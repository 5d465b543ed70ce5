package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/sidecar/childproc"
	"assay/sidecar/localmodel"
)

// worker trains and runs the gate in child processes of the lowest priority.
type worker struct {
	child   *childproc.Child
	config  Config
	compute localmodel.Compute
	// base is the directory of --model, which training runs fine-tune with --train-from base, and which has the
	// regression set.
	base string
}

// Train implements retrain.Worker. A restarted run resumes after its last complete epoch.
func (w *worker) Train(ctx context.Context, init, bags, out string, report func(retrain.Progress)) error {
	if w.config.From == FromBase {
		if err := comparableAspects(w.base, init); err != nil {
			return err
		}
		init = w.base
	}
	epochs, rate, err := w.recipe(init, bags)
	if err != nil {
		return err
	}
	args := []string{
		"train", "--bags", bags, "--init", init, "--out", out, "--epochs", strconv.Itoa(epochs),
		"--lr", fmt.Sprint(rate), "--data-name", "feedback", "--progress", "json",
		"--min-each", strconv.Itoa(w.config.Policy.MinEach),
		"--threshold", w.config.Threshold, "--false-alarms", fmt.Sprint(w.config.FalseAlarms),
	}
	return w.run(ctx, append(args, w.computeArgs()...), func(line []byte) {
		var p retrain.Progress
		if json.Unmarshal(line, &p) == nil {
			report(p)
		}
	})
}

// comparableAspects returns an error if the gate would reject every candidate because the model in base has other aspects than
// the current one, as after a start with another --model.
func comparableAspects(base, current string) error {
	b, err := describe(base)
	if err != nil {
		return err
	}
	c, err := describe(current)
	if err != nil || gate.SameAspects(b.Aspects, c.Aspects) {
		return err
	}
	return fmt.Errorf("the model of --model, %s, has the aspects %q, and the current version %s has %q: candidates that are trained from it "+
		"cannot be compared with the current version; make it current (assay models promote %s), or use --train-from current",
		b.Version, b.Aspects, c.Version, c.Aspects, b.Version)
}

// recipe returns the settings for the model at init and the number of bags, one per line of the file bags.
func (w *worker) recipe(init, bags string) (epochs int, rate float64, err error) {
	base, err := checkpoint.Open(init)
	if err != nil {
		return 0, 0, err
	}
	defer base.Close()
	data, err := os.ReadFile(bags)
	if err != nil {
		return 0, 0, err
	}
	epochs, rate = w.config.recipe(!base.HasClassifier(), bytes.Count(data, []byte{'\n'}))
	return epochs, rate, nil
}

// Gate implements retrain.Worker.
func (w *worker) Gate(ctx context.Context, files retrain.GateFiles) (verdict retrain.Verdict, err error) {
	args := []string{
		"gate", "--current", files.Current, "--candidate", files.Candidate, "--holdout", files.Holdout, "--probe", files.Probe,
		"--out", files.Report, "--write", "--allow-untrained",
		"--metric", string(w.config.Gate.Metric), "--margin", fmt.Sprint(w.config.Gate.Margin),
		"--regression-margin", fmt.Sprint(w.config.Gate.RegressionMargin), "--confidence", fmt.Sprint(w.config.Gate.Confidence),
		"--max-shift", fmt.Sprint(w.config.Gate.MaxShift), "--min-bags", strconv.Itoa(w.config.Policy.MinHeldOut),
	}
	if files.Anchor != "" {
		args = append(args, "--anchor", files.Anchor)
	}
	args = append(args, "--regression-anchor", w.base)
	if w.config.Gate.AllowShift {
		args = append(args, "--allow-shift")
	}
	if err := os.Remove(files.Report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return verdict, err
	}
	failed := w.run(ctx, append(args, w.computeArgs()...), nil)
	data, err := os.ReadFile(files.Report)
	if err != nil { // a rejection has a report despite its exit code
		return verdict, errors.Join(failed, err)
	}
	var report gate.Report
	if err := json.Unmarshal(data, &report); err != nil {
		return verdict, fmt.Errorf("%s: %w", files.Report, err)
	}
	if report.Promote && failed != nil {
		return verdict, failed
	}
	return retrain.Verdict{Promote: report.Promote, Better: report.Better, Reason: report.Summary(), Report: data}, nil
}

// Describe implements retrain.Worker.
func (*worker) Describe(dir string) (retrain.Model, error) { return describe(dir) }

// describe reads the manifest of a checkpoint directory.
func describe(dir string) (retrain.Model, error) {
	c, err := checkpoint.Open(dir)
	if err != nil {
		return retrain.Model{}, err
	}
	defer c.Close()
	m := c.Manifest
	described := retrain.Model{Version: m.Version, Created: m.Created, Method: m.Method, Threshold: m.Threshold, Labels: c.Config.Labels}
	for _, a := range m.Aspects {
		described.Aspects = append(described.Aspects, a.Name)
	}
	return described, nil
}

func (w *worker) computeArgs() []string {
	return []string{"--precision", w.precision(), "--device", cmp.Or(w.compute.Device, "auto"), "--threads", strconv.Itoa(w.config.threads())}
}

// precision is the precision of training runs: never int8, which has no gradients.
func (w *worker) precision() string {
	if w.compute.Precision == encoder.Int8 {
		return string(encoder.Auto)
	}
	return cmp.Or(string(w.compute.Precision), string(encoder.Auto))
}

// run marks a child that was killed as retryable, unlike a failure that would repeat.
func (w *worker) run(ctx context.Context, args []string, onLine func([]byte)) error {
	err := w.child.Run(ctx, args, childproc.Limits{Memory: w.config.Memory, Time: w.config.Timeout}, onLine)
	switch {
	case killed(err) && ctx.Err() == nil:
		return fmt.Errorf("%w: %w", retrain.ErrInterrupted, err)
	case outOfSpace(err):
		return errors.Join(err, syscall.ENOSPC)
	}
	return err
}

// outOfSpace reports whether a child failed because its disk is full. The errno is lost: it matches the error text.
func outOfSpace(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && strings.Contains(err.Error(), syscall.ENOSPC.Error())
}

// killed reports whether a process was ended by a signal that this process did not send.
func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || errors.Is(err, childproc.ErrMemory) || errors.Is(err, childproc.ErrTime) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// dirName returns the directory name of a version. Versions consist of letters, digits and "-._"; others are unknown.
func dirName(version string) (string, error) {
	if version == "" || strings.ContainsAny(version, "/\\\x00") || version[0] == '.' {
		return "", fmt.Errorf("%w: version %.60q is not a valid directory name", retrain.ErrNoModel, version)
	}
	return version, nil
}
