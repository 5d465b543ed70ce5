// Package assay is the client of assay, a reward-model sidecar: it scores the
// responses of language models, sends labels, and looks after the models of a
// running service over HTTP.
//
//	client, err := assay.New("http://127.0.0.1:8080")
//	...
//	results, err := client.ScoreAll(ctx, assay.Texts(responses...), assay.Options{})
//
// A reward is what the service answered or there is none: every failure is an
// error, and an answer that lacks a number, or holds one that no reward can be,
// is an [*AnswerError]. An error is an [*APIError] when the service said no, a
// [*TransportError] when there was no answer, an [*InputError] when nothing was
// sent; [errors.Is] tells the common cases apart ([ErrUnavailable] and others).
//
// Requests that may be made twice (scoring, feedback, reading) are repeated
// after failures that pass, at growing intervals with jitter, never sooner than
// Retry-After, until the context ends or the budget of [Retry] is spent. What
// changes models is repeated only when the service certainly did not do it.
//
// The client is a Go module of its own, with no dependency beyond the standard
// library. As a package of the service's module it would be light to compile
// but not to require: that module's zip holds the weights of the default model,
// and the least versions in its go.mod (NATS, Prometheus and more) would raise
// those of every program that imports the client. Its versions are tagged
// clients/go/vX.Y.Z.
package assay
