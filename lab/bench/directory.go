package bench

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

//go:embed python/*.py python/*.txt
var pythonFiles embed.FS

// Dir is the directory that a benchmark works in: Python environments, exported models, logs, and the Python files that
// this binary embeds.
type Dir struct {
	Path   string
	Python string               // interpreter that creates the environments
	Notify func(message string) // reports steps that take long
}

func (d Dir) path(parts ...string) string {
	return filepath.Join(append([]string{d.Path}, parts...)...)
}

// scripts writes the embedded Python files to the directory and returns its path.
func (d Dir) scripts() (string, error) {
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return "", err
	}
	return d.path("python"), fs.WalkDir(pythonFiles, "python", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(d.path("python"), 0o755))
		}
		text, err := pythonFiles.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(d.path(name), text, 0o644)
	})
}

// environment returns the interpreter of a virtual environment with python/requirements-NAME.txt. It creates the
// environment where it is missing, and installs again where the requirements have changed.
func (d Dir) environment(ctx context.Context, name string) (string, error) {
	requirements := "requirements-" + name + ".txt"
	wanted, err := pythonFiles.ReadFile("python/" + requirements)
	if err != nil {
		return "", err
	}
	dir := d.path("env-" + name)
	python, mark := filepath.Join(dir, "bin", "python"), filepath.Join(dir, requirements)
	if got, err := os.ReadFile(mark); err == nil && string(got) == string(wanted) {
		return python, nil
	}
	d.Notify("installing " + requirements)
	if _, err := os.Stat(python); err != nil {
		if err := d.tool(ctx, name, d.Python, "-m", "venv", dir); err != nil {
			return "", err
		}
	}
	if err := d.tool(ctx, name, python, "-m", "pip", "install", "--disable-pip-version-check", "-r", d.path("python", requirements)); err != nil {
		return "", err
	}
	return python, os.WriteFile(mark, wanted, 0o644)
}

// exported returns the directory of the model as the server reads it, and exports it where it is missing.
func (d Dir) exported(ctx context.Context, python string, s Server, m Model, sentences []string) (string, error) {
	dir := d.path(s.env + "-" + cmp.Or(m.Version, m.Name))
	if _, err := os.Stat(filepath.Join(dir, s.exports)); err == nil {
		return dir, nil
	}
	d.Notify("exporting " + m.Name + " for " + s.env)
	args := []string{python, d.path("python", "export_"+s.env+".py"), "--model", m.Dir, "--out", dir}
	if s.calibrates {
		text, err := json.Marshal(sentences)
		if err != nil {
			return "", err
		}
		file := d.path("sentences.json")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return "", err
		}
		args = append(args, "--sentences", file, "--max-length", strconv.Itoa(m.MaxLength))
	}
	return dir, d.tool(ctx, "export", args...)
}

// RandomModel returns the directory of a checkpoint of RoBERTa-base's shape with random weights and the given
// directory's tokenizer. It creates the checkpoint where it is missing.
func (d Dir) RandomModel(ctx context.Context, tokenizer string) (string, error) {
	dir := d.path("random-roberta-base")
	if _, err := os.Stat(filepath.Join(dir, "tokenizer_config.json")); err == nil {
		return dir, nil
	}
	if _, err := d.scripts(); err != nil {
		return "", err
	}
	python, err := d.environment(ctx, "torch")
	if err != nil {
		return "", err
	}
	d.Notify("creating a random model")
	return dir, d.tool(ctx, "random", python, d.path("python", "random_model.py"), "--tokenizer", tokenizer, "--out", dir)
}

// Baselines scores texts with classifiers from PyPI; baselines.py describes the files.
func (d Dir) Baselines(ctx context.Context, input, out string) error {
	if _, err := d.scripts(); err != nil {
		return err
	}
	python, err := d.environment(ctx, "baselines")
	if err != nil {
		return err
	}
	d.Notify("scoring with the baselines")
	return d.tool(ctx, "baselines", python, d.path("python", "baselines.py"), "--input", input, "--out", out)
}

// tool runs a program to its end. It keeps the output in a log if the program fails.
func (d Dir) tool(ctx context.Context, name string, args ...string) error {
	if err := os.MkdirAll(d.path("logs"), 0o755); err != nil {
		return err
	}
	log, err := os.Create(d.path("logs", name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; see %s", filepath.Base(args[0]), errors.Join(ctx.Err(), err), log.Name())
	}
	return os.Remove(log.Name())
}

// pinned is the version of a package in the requirements of an environment.
func pinned(environment, name string) string {
	text, err := pythonFiles.ReadFile("python/requirements-" + environment + ".txt")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		what, version, ok := strings.Cut(strings.TrimSpace(line), "==")
		if what, _, _ = strings.Cut(what, "["); ok && what == name {
			return version
		}
	}
	return ""
}
