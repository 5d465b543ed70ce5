// Package assay is an HTTP client of assay, a reward-model sidecar: it scores the
// responses of language models, sends labels, and manages the models of a
// running service.
//
//	client, err := assay.New("http://127.0.0.1:8080")
//	...
//	results, err := client.ScoreAll(ctx, assay.Texts(responses...), assay.Options{})
//
// The client never makes up a reward: every failure is an error, and a response
// with a missing or invalid value is an [*InvalidResponseError]. An [*APIError]
// is an error status, a [*TransportError] a missing response, and an
// [*InputError] an argument that cannot be sent; [errors.Is] distinguishes the
// common cases ([ErrUnavailable] and others).
//
// Idempotent requests (scoring, feedback, reading) are retried after transient
// failures with exponential backoff and jitter, never earlier than Retry-After,
// until the context ends or the budget of [Retry] is exhausted. Requests that
// change models are retried only if the service has certainly not applied them.
//
// The client is a separate Go module that depends only on the standard library.
// A program that imports it therefore downloads neither the weights of the
// default model, which are in the module of the service, nor its dependencies.
// Releases are tagged clients/go/vX.Y.Z.
package assay
