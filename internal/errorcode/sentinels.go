package errorcode

import (
	"context"
	"errors"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/live"
	"assay/rewardmodel/retrain"
)

// sentinel is an error and its code.
type sentinel struct {
	err  error
	code Code
}

// sentinels lists the errors with a code in the order in which Of looks for them.
func sentinels() []sentinel {
	return []sentinel{
		{rewardmodel.ErrOverloaded, Overloaded},
		{rewardmodel.ErrClosed, ShuttingDown},
		{rewardmodel.ErrNotReady, NotReady},
		{feedback.ErrStoreFull, StoreFull},
		{feedback.ErrUnavailable, Unavailable},
		{context.DeadlineExceeded, DeadlineExceeded},
		{context.Canceled, ClientGone},
		{retrain.ErrNoModel, NotFound},
		{retrain.ErrNoPrevious, NoPrevious},
		{retrain.ErrNoFiles, NoFiles},
		{retrain.ErrDamaged, Damaged},
		{retrain.ErrExists, Exists},
		{retrain.ErrChanged, Changed},
		{rewardmodel.ErrModel, ModelFailed},
		{live.ErrIdle, Idle},
	}
}

// Of returns the code of err: that of an *InputError, else that of the first
// sentinel that err wraps, else Internal.
func Of(err error) Code {
	var input *rewardmodel.InputError
	if errors.As(err, &input) {
		return Code(input.Kind.String())
	}
	for _, s := range sentinels() {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return Internal
}

// Err returns the error of a code that a service sent, for its clients: the
// sentinel whose code is c, or nil. Codes of an *InputError have no sentinel.
func (c Code) Err() error {
	for _, s := range sentinels() {
		if s.code == c && c != NotFound {
			return s.err
		}
	}
	return nil
}
