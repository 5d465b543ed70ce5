// Package batching decides what a model computes next: which jobs are admitted, in which order their sequences are
// served, and which of them share a batch.
//
// A Job is what one caller needs of the model: sequences of tokens. A Queue admits it, or refuses it and promises it a
// time, forms batches from all queued jobs, and coalesces equal sequences of different jobs. It is passive: its owner
// calls the model, distributes what it returns, and serializes all calls. It has no clock, no lock and no goroutine.
//
// It does not depend on requests, responses, aspects or tokenizers, nor on what a model returns.
package batching
