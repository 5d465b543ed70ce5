package bench

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed peers/*.py peers/*.txt
var peers embed.FS

// Lab is the folder that a benchmark works in: Python environments, exported models, logs, and the peers' files as
// they are in this binary.
type Lab struct {
	Dir    string
	Python string               // makes the environments
	Say    func(message string) // told what takes long
}

func (l Lab) path(parts ...string) string {
	return filepath.Join(append([]string{l.Dir}, parts...)...)
}

// scripts writes the peers' files into the lab.
func (l Lab) scripts() (string, error) {
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return "", err
	}
	return l.path("peers"), fs.WalkDir(peers, "peers", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(l.path("peers"), 0o755))
		}
		text, err := peers.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(l.path(name), text, 0o644)
	})
}

// environment returns the interpreter of a virtual environment that holds peers/requirements-NAME.txt, made where it
// is missing or was made for other requirements.
func (l Lab) environment(ctx context.Context, name string) (string, error) {
	requirements := "requirements-" + name + ".txt"
	wanted, err := peers.ReadFile("peers/" + requirements)
	if err != nil {
		return "", err
	}
	dir := l.path("env-" + name)
	python, mark := filepath.Join(dir, "bin", "python"), filepath.Join(dir, requirements)
	if got, err := os.ReadFile(mark); err == nil && string(got) == string(wanted) {
		return python, nil
	}
	l.Say("installing " + requirements)
	if _, err := os.Stat(python); err != nil {
		if err := l.tool(ctx, name, l.Python, "-m", "venv", dir); err != nil {
			return "", err
		}
	}
	if err := l.tool(ctx, name, python, "-m", "pip", "install", "--disable-pip-version-check", "-r", l.path("peers", requirements)); err != nil {
		return "", err
	}
	return python, os.WriteFile(mark, wanted, 0o644)
}

// exported returns the folder of the model in ONNX, made where it is missing.
func (l Lab) exported(ctx context.Context, python string, m Model) (string, error) {
	dir := l.path("onnx-" + m.Name)
	if _, err := os.Stat(filepath.Join(dir, "int8.onnx")); err == nil {
		return dir, nil
	}
	l.Say("exporting " + m.Name + " to ONNX")
	return dir, l.tool(ctx, "export", python, l.path("peers", "export_onnx.py"), "--model", m.Dir, "--out", dir)
}

// RandomModel returns the folder of a checkpoint of RoBERTa-base's shape with random weights and the tokenizer of the
// folder, made where it is missing.
func (l Lab) RandomModel(ctx context.Context, tokenizer string) (string, error) {
	dir := l.path("random-roberta-base")
	if _, err := os.Stat(filepath.Join(dir, "vocab.json")); err == nil {
		return dir, nil
	}
	if _, err := l.scripts(); err != nil {
		return "", err
	}
	python, err := l.environment(ctx, "torch")
	if err != nil {
		return "", err
	}
	l.Say("making a random model")
	return dir, l.tool(ctx, "random", python, l.path("peers", "random_model.py"), "--tokenizer", tokenizer, "--out", dir)
}

// tool runs a program to its end; what it prints goes to a log.
func (l Lab) tool(ctx context.Context, name string, args ...string) error {
	if err := os.MkdirAll(l.path("logs"), 0o755); err != nil {
		return err
	}
	log, err := os.Create(l.path("logs", name+".log"))
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
	return nil
}

// pinned is the version that the requirements of an environment name.
func pinned(environment, name string) string {
	text, err := peers.ReadFile("peers/requirements-" + environment + ".txt")
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
