// Package encoder runs RoBERTa and BERT sequence classifiers on libtorch. It is the only package that imports gotch.
//
// A Runtime owns the one thread that may call libtorch. Runtime.Load gives a Model that scores instances
// (rewardmodel.Model); Runtime.NewLearner gives a Learner that trains one (train.Learner).
//
// Sequences are packed: the tokens of a batch lie one after another in a [tokens, hidden] matrix without padding, linear
// layers see them all at once, and attention runs within each sequence (kernels.h) or, on a GPU, in training and for
// DeBERTa, over groups of like length, whose little padding is masked. So no other layer computes a token that is not
// there, and a sequence gets the same score whatever it is batched with, up to rounding.
package encoder
