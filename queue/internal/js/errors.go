package js

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of the server that the client library does not name.
const (
	codeClusterNotActive jetstream.ErrorCode = 10006
	codeUnavailable      jetstream.ErrorCode = 10008
	codeNotLeader        jetstream.ErrorCode = 10009
	codeStreamOffline    jetstream.ErrorCode = 10118
	codeConsumerOffline  jetstream.ErrorCode = 10119
	codeConsumerCreate   jetstream.ErrorCode = 10012 // of many causes, which only the log of the server has
	codeMsgIDInFlight    jetstream.ErrorCode = 10158 // a message with this id is being stored
	codeSequenceNotKnown jetstream.ErrorCode = 10163 // the last sequence of the subject is not known yet
	codeAccountFull      jetstream.ErrorCode = 10002
	codeNoPlacement      jetstream.ErrorCode = 10005 // no servers have the storage, or there are too few
	codeServerFull       jetstream.ErrorCode = 10023
	codeMemoryFull       jetstream.ErrorCode = 10028
	codeStorageFull      jetstream.ErrorCode = 10047
	codeStoreFailed      jetstream.ErrorCode = 10077 // only the description has the reason
)

// Retryable reports whether err may be transient and end within seconds.
func Retryable(err error) bool {
	if Leaderless(err) || errors.Is(err, ErrUncertain) {
		return true
	}
	for _, known := range []error{
		nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
		nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded, nats.ErrStaleConnection,
		jetstream.ErrAsyncPublishTimeout,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Leaderless reports whether the servers cannot do it yet: they say so, or do not
// reply in time. It is false without JetStream, where nothing listens.
func Leaderless(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return retryableCode(api.ErrorCode)
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

func retryableCode(code jetstream.ErrorCode) bool {
	switch code {
	case codeClusterNotActive, codeUnavailable, codeNotLeader, codeStreamOffline, codeConsumerOffline, codeMsgIDInFlight, codeSequenceNotKnown:
		return true
	}
	return false
}

// WrongSequence reports whether a message was rejected because the last one of
// its subject is not the one that it names.
func WrongSequence(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Rejected reports whether the server replied that it does not do what it was asked. After
// other errors, it may have done it, or do it later.
func Rejected(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && !retryableCode(api.ErrorCode)
}

// NotCreated reports whether the server could not create a consumer.
func NotCreated(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeConsumerCreate
}

// TooLarge reports whether a message is larger than the server or the stream
// accepts.
func TooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum ||
		api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, "too large"))
}

// Full reports whether a limit of bytes or messages keeps a message out.
func Full(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeAccountFull, codeServerFull, codeStorageFull:
		return true
	case codeStoreFailed:
		return strings.HasPrefix(api.Description, "maximum")
	}
	return false
}

// InsufficientStorage reports whether the servers have no storage left to reserve. It is
// also true if a cluster has too few servers for the replicas of a stream, for which the
// servers have the same code.
func InsufficientStorage(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeNoPlacement, codeServerFull, codeMemoryFull, codeStorageFull:
		return true
	}
	return false
}

// Explain adds the fix to errors that an operator can fix.
func Explain(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("JetStream does not reply: %w; start the server with -js, or enable JetStream for this account; behind a leaf node, set the JetStream domain", err)
	case InsufficientStorage(err):
		return fmt.Errorf("%w; give JetStream more storage, lower the streams' maximum bytes, or run as many servers as the streams have replicas", err)
	}
	return err
}
