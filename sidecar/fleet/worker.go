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

// worker trains and judges in child processes of the least priority.
type worker struct {
	child   *childproc.Child
	config  Config
	compute localmodel.Compute
	// base is the directory of --model: training runs with --train-from base fine-tune from it, and the regression set
	// came with it.
	base string
}

// Train implements retrain.Worker. Started again after a kill, the child goes on after its last whole epoch.
func (w *worker) Train(ctx context.Context, init, bags, out string, report func(retrain.Progress)) error {
	if w.config.From == FromBase {
		init = w.base
	}
	epochs, rate, err := w.recipe(init, bags)
	if err != nil {
		return err
	}
	args := []string{
		"train", "--bags", bags, "--init", init, "--out", out, "--epochs", strconv.Itoa(epochs),
		"--lr", fmt.Sprint(rate), "--data-name", "feedback", "--progress", "json",
	}
	return w.run(ctx, append(args, w.computeArgs()...), func(line []byte) {
		var p retrain.Progress
		if json.Unmarshal(line, &p) == nil {
			report(p)
		}
	})
}

// recipe looks at what is trained, and on how many bags, of which a file has one a line.
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
	if err != nil { // a rejection is an exit code, but comes with a report
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
	return retrain.Model{Version: m.Version, Created: m.Created, Method: m.Method, Threshold: m.Threshold, Labels: c.Config.Labels}, nil
}

func (w *worker) computeArgs() []string {
	return []string{"--precision", w.precision(), "--device", cmp.Or(w.compute.Device, "auto"), "--threads", strconv.Itoa(w.config.threads())}
}

// precision of a training: never int8, which has no gradients.
func (w *worker) precision() string {
	if w.compute.Precision == encoder.Int8 {
		return string(encoder.Auto)
	}
	return cmp.Or(string(w.compute.Precision), string(encoder.Auto))
}

// run tells a death from outside, which is worth another attempt, from a failure that would come again.
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

// outOfSpace reports whether a child failed because its disk is full, of which only the text comes from there.
func outOfSpace(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && strings.Contains(err.Error(), syscall.ENOSPC.Error())
}

// killed tells that a process ended by a signal that it did not get from us.
func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || errors.Is(err, childproc.ErrMemory) || errors.Is(err, childproc.ErrTime) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// dirName turns a version into the name of a directory. Versions consist of letters, digits and "-._"; any other is unknown.
func dirName(version string) (string, error) {
	if version == "" || strings.ContainsAny(version, "/\\\x00") || version[0] == '.' {
		return "", fmt.Errorf("%w: version %.60q cannot be the name of a folder", retrain.ErrNoModel, version)
	}
	return version, nil
}
