// Package encoder runs RoBERTa and BERT sequence classifiers on libtorch. It is the only package that imports gotch.
//
// A Runtime owns the one thread that may call libtorch. Runtime.Load gives a Model that scores instances
// (rewardmodel.Model); Runtime.NewLearner gives a Learner that trains one (train.Learner).
//
// Sequences are packed: the tokens of a batch lie one after another in a [tokens, hidden] matrix without padding, linear
// layers see them all at once, and attention runs over groups of equal length. So no token is computed that is not
// there, no mask is needed, and a sequence gets the same score whatever it is batched with, up to rounding.
package encoder
