package main

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
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong usage or bad input
)

// usageError says that a flag, a setting or what it names is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errOutputClosed says that whoever read our output, such as head, left.
var errOutputClosed = errors.New("the standard output is closed")

func exitCode(err error) int {
	var (
		usage usageError
		line  *lineError
		bad   *bag.LineError
		input *rewardmodel.InputError
	)
	switch {
	case err == nil, errors.Is(err, errOutputClosed):
		return exitDone
	case errors.As(err, &usage), errors.As(err, &line), errors.As(err, &bad), errors.As(err, &input):
		return exitUsage
	}
	for _, wrong := range []error{
		fs.ErrNotExist, checkpoint.ErrDamaged, checkpoint.ErrUnsupported, checkpoint.ErrNotFinite,
		tokenizer.ErrFormat, train.ErrData, eval.ErrInput, gate.ErrInput,
	} {
		if errors.Is(err, wrong) {
			return exitUsage
		}
	}
	return exitFailed
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
