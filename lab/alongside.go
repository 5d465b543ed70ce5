package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/lab/load"
	"assay/sidecar/childproc"
	"assay/sidecar/cli"
)

// alongsideTraining measures from the first step of a training run on, and stops that afterwards.
func (c *servingCmd) alongsideTraining(a *cli.App, measure func() (load.Result, error)) (load.Result, error) {
	binary, err := c.Binary()
	if err != nil {
		return load.Result{}, err
	}
	dir, err := os.MkdirTemp("", "assay-bench-*")
	if err != nil {
		return load.Result{}, err
	}
	defer os.RemoveAll(dir)
	child, err := childproc.New(binary, a.Log)
	if err != nil {
		return load.Result{}, err
	}
	ctx, cancel := context.WithCancel(a.Context)
	defer cancel()
	args := slices.Concat([]string{"train", "--out", filepath.Join(dir, "out"), "--progress", "json"}, strings.Fields(c.Alongside))
	started, exited := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		exited <- child.Run(ctx, args, childproc.Limits{}, func([]byte) {
			select {
			case started <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-started:
	case err := <-exited:
		return load.Result{}, alongsideError(err)
	}
	r, err := measure()
	cancel()
	if trained := <-exited; err == nil && !errors.Is(trained, context.Canceled) {
		err = alongsideError(trained)
	}
	return r, err
}

// alongsideError is the error of a training run that ended early.
func alongsideError(err error) error {
	return fmt.Errorf("--alongside: %w", cmp.Or(err, errors.New("the training run ended before the round; give it more --epochs")))
}
