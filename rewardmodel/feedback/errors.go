package feedback

import "errors"

// Errors of the store of records. Nothing of the batch that they answer counts
// as accepted: sending it again is safe and right.
var (
	// ErrStoreFull says that the store has reached its limit. It takes items
	// again once some are erased or the limit is raised.
	ErrStoreFull = errors.New("the feedback store is full")
	// ErrUnavailable says that the store cannot be reached, or does not know
	// yet what it holds. It passes.
	ErrUnavailable = errors.New("the feedback store is not available")
)
