// Package encoder runs RoBERTa, BERT, DeBERTa and ModernBERT sequence classifiers, with kernels of its own where a model can be
// computed in panels (panels.h), else on libtorch, which it loads when something first needs it. It is the only package that
// imports gotch.
//
// A Runtime owns the single thread that scores and calls libtorch. Runtime.Load returns a Model that scores instances
// (rewardmodel.Model); Runtime.NewLearner returns a Learner that trains one (train.Learner).
//
// Sequences are packed: the tokens of a batch are concatenated in a [tokens, hidden] matrix without padding. Linear
// layers process them together. Attention runs within each sequence (kernels.h) or, on a GPU, in training and for
// DeBERTa, over groups of sequences of similar length with masked padding. No other layer computes padding for
// attention. On a CPU, a sequence gets the same score in any batch, bit by bit (Model.Numerics); elsewhere up to rounding.
//
// The context of a sequence (the prompt) is packed once for all sequences of a batch that share it. Its tokens attend
// only to each other, and those of a sequence to the context and to their own.
package encoder
