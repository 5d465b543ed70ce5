package cli

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/eval"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/tokenizer"
	"assay/rewardmodel/train"
)

// The exit codes of every command.
const (
	ExitDone   = 0
	ExitFailed = 1 // the command failed
	ExitUsage  = 2 // usage error or invalid input
)

// usageError reports an invalid flag, setting or input.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as a usage error, for which ExitCode is ExitUsage. The message names the flag and the fix.
func Usage(err error) error { return usageError{err} }

// errOutputClosed reports that the reader of standard output, such as head, has exited.
var errOutputClosed = errors.New("standard output is closed")

// ExitCode is the exit code of a command that returned err.
func ExitCode(err error) int {
	var (
		usage usageError
		line  *LineError
		bad   *bag.LineError
		input *rewardmodel.InputError
	)
	switch {
	case err == nil, errors.Is(err, errOutputClosed):
		return ExitDone
	case errors.As(err, &usage), errors.As(err, &line), errors.As(err, &bad), errors.As(err, &input):
		return ExitUsage
	}
	for _, invalid := range []error{
		fs.ErrNotExist, checkpoint.ErrDamaged, checkpoint.ErrUnsupported, checkpoint.ErrNotFinite,
		tokenizer.ErrFormat, train.ErrData, eval.ErrInput, gate.ErrInput,
	} {
		if errors.Is(err, invalid) {
			return ExitUsage
		}
	}
	return ExitFailed
}

// output maps a closed pipe to errOutputClosed.
type output struct{ w io.Writer }

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		err = errOutputClosed
	}
	return n, err
}
