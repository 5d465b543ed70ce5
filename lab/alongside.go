package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/lab/load"
	"assay/sidecar/cli"
)

// lowestPriority runs a program as the service runs its training jobs: idle for the CPU scheduler and the disk.
// OpenMP's threads sleep while they wait, since one that spins takes a core from the service.
var lowestPriority = []string{
	"env", "OMP_WAIT_POLICY=PASSIVE", "GOMP_SPINCOUNT=0", "KMP_BLOCKTIME=0", "nice", "-n", "19", "ionice", "-c", "3", "chrt", "--idle", "0",
}

// alongsideTraining measures from the first step of a training run on, and stops that afterwards.
func (c *servingCmd) alongsideTraining(a *cli.App, measure func() (load.Result, error)) (load.Result, error) {
	binary, err := c.binary()
	if err != nil {
		return load.Result{}, err
	}
	dir, err := os.MkdirTemp("", "assay-bench-*")
	if err != nil {
		return load.Result{}, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(a.Context)
	defer cancel()
	args := slices.Concat(lowestPriority, []string{binary, "train", "--out", filepath.Join(dir, "out"), "--progress", "json"}, strings.Fields(c.Alongside))
	started, exited := make(chan struct{}), make(chan error, 1)
	go func() { exited <- runTraining(ctx, args, func() { close(started) }) }()
	select {
	case <-started:
	case err := <-exited:
		return load.Result{}, alongsideError(err)
	}
	r, err := measure()
	select {
	case trained := <-exited:
		return r, errors.Join(err, alongsideError(trained))
	default:
	}
	cancel()
	_ = <-exited // it was stopped
	return r, err
}

// alongsideError is for a training run that ended by itself.
func alongsideError(err error) error {
	return fmt.Errorf("--alongside: %w", cmp.Or(err, errors.New("the training run ended before the round; give it more --epochs")))
}

// runTraining runs a training command until it exits or ctx is done. It calls started at the first line of progress.
func runTraining(ctx context.Context, args []string, started func()) error {
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if started != nil {
			started()
			started = nil
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(log.Bytes()))
	}
	return nil
}
