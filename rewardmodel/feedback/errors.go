package feedback

import "errors"

// Errors of the store of records. No item of the batch is accepted: the client
// should send it again.
var (
	// ErrStoreFull reports that the store has reached its limit. It accepts items
	// again after some are erased or the limit is raised.
	ErrStoreFull = errors.New("the feedback store is full")
	// ErrUnavailable reports that the store cannot be reached, or is still loading
	// its index. It is retryable.
	ErrUnavailable = errors.New("the feedback store is not available")
)
