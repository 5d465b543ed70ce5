// Package proxy is an OpenAI-compatible reverse proxy that scores what a language model
// writes, while it writes.
//
// It guards chat completions, completions and responses, streamed or not, and passes
// every other request through. What it does with a violating utterance is its [Mode].
// Each text of a response, such as the content of a choice, has a session of a [Guard],
// which scores in this process ([Local]) or with a running service ([Remote]).
//
// The modes that enforce (hold, stop, redact) never edit what the upstream sent. They
// build each message again from the fields that they know, so that a field or an event
// that they do not know cannot carry text past the guard.
package proxy
