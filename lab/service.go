package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"assay/lab/bench"
	"assay/sidecar/localmodel"
)

// assayFlag names the binary that is measured.
type assayFlag struct {
	Assay string `placeholder:"FILE" help:"Binary of assay to measure. Default: assay in the directory of this binary."`
}

// binary is the absolute path of the binary.
func (f assayFlag) binary() (string, error) {
	if f.Assay != "" {
		return filepath.Abs(f.Assay)
	}
	lab, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(lab), "assay"), nil
}

// serviceFlags specify the service that is started, and the work that it gets.
type serviceFlags struct {
	assayFlag
	workFlag
	localmodel.Flags `group:"Model:"`
}

// startTimeout is that of a service.
const startTimeout = 5 * time.Minute

// start runs the service with the flags in addition to those of the model. The caller closes it.
func (f serviceFlags) start(ctx context.Context, flags ...string) (*bench.Service, error) {
	dir, err := localmodel.Find("--model", f.Model)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	binary, err := f.binary()
	if err != nil {
		return nil, err
	}
	flags = append(flags, "--model", dir, "--precision", f.Precision, "--device", f.Device, "--threads", strconv.Itoa(f.Threads),
		"--precision-limit", strconv.FormatFloat(f.Limit, 'g', -1, 64))
	if f.AllowUntrained {
		flags = append(flags, "--allow-untrained")
	}
	s, err := bench.StartService(ctx, bench.ServiceOptions{Binary: binary, Timeout: startTimeout, Flags: flags})
	if err != nil {
		return nil, fmt.Errorf("%s serve: %w", binary, err)
	}
	return s, nil
}
