package flags

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

// Assay names the binary that is measured.
type Assay struct {
	File string `name:"assay" placeholder:"FILE" help:"Binary of assay to measure. Default: assay in the directory of this binary."`
}

// Binary is the absolute path of the binary.
func (f Assay) Binary() (string, error) {
	if f.File != "" {
		return filepath.Abs(f.File)
	}
	lab, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(lab), "assay"), nil
}

// Service specifies the service that is started, and the work that it gets.
type Service struct {
	Assay
	Work
	localmodel.Flags `group:"Model:"`
}

// StartTimeout is that of a service.
const StartTimeout = 5 * time.Minute

// Start runs the service with the arguments in addition to those of the model. The caller closes it.
func (f Service) Start(ctx context.Context, args ...string) (*bench.Service, error) {
	dir, err := localmodel.Find("--model", f.Model)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	binary, err := f.Binary()
	if err != nil {
		return nil, err
	}
	args = append(args, "--model", dir, "--precision", f.Precision, "--device", f.Device, "--threads", strconv.Itoa(f.Threads),
		"--precision-limit", strconv.FormatFloat(f.Limit, 'g', -1, 64))
	if f.AllowUntrained {
		args = append(args, "--allow-untrained")
	}
	s, err := bench.StartService(ctx, bench.ServiceOptions{Binary: binary, Timeout: StartTimeout, Flags: args})
	if err != nil {
		return nil, fmt.Errorf("%s serve: %w", binary, err)
	}
	return s, nil
}
