package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"assay/bench"
	"assay/sidecar/childproc"
	"assay/sidecar/localmodel"
)

// selfFlags say which service is started, to be measured.
type selfFlags struct {
	Assay string `placeholder:"FILE" help:"Binary of assay to measure. Default: this one."`
	workFlag
	localmodel.Flags `group:"Model:"`
}

// startWithin is the longest wait for a service.
const startWithin = 5 * time.Minute

// start runs the service with the flags beside those of the model. The caller closes it.
func (f selfFlags) start(ctx context.Context, flags ...string) (*bench.Service, error) {
	dir, err := localmodel.Find("--model", f.Model)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	binary := f.Assay
	if binary == "" {
		if binary, err = childproc.OwnProgram(); err != nil {
			return nil, err
		}
	}
	flags = append(flags, "--model", dir, "--precision", f.Precision, "--device", f.Device, "--threads", strconv.Itoa(f.Threads),
		"--precision-limit", strconv.FormatFloat(f.Limit, 'g', -1, 64))
	if f.AllowUntrained {
		flags = append(flags, "--allow-untrained")
	}
	s, err := bench.StartService(ctx, binary, startWithin, flags...)
	if err != nil {
		return nil, fmt.Errorf("%s serve: %w", binary, err)
	}
	return s, nil
}
