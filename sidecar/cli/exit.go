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
	ExitUsage  = 2 // wrong usage or bad input
)

// usageError says that a flag, a setting or what it names is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as wrong usage, for which ExitCode is ExitUsage. The message names the flag and the fix.
func Usage(err error) error { return usageError{err} }

// errOutputClosed says that whoever read our output, such as head, left.
var errOutputClosed = errors.New("the standard output is closed")

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
	for _, wrong := range []error{
		fs.ErrNotExist, checkpoint.ErrDamaged, checkpoint.ErrUnsupported, checkpoint.ErrNotFinite,
		tokenizer.ErrFormat, train.ErrData, eval.ErrInput, gate.ErrInput,
	} {
		if errors.Is(err, wrong) {
			return ExitUsage
		}
	}
	return ExitFailed
}

// output tells a closed pipe from other failures.
type output struct{ w io.Writer }

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		err = errOutputClosed
	}
	return n, err
}
