// Package synthetic creates the bags on which the BFGPU paper compares methods:
// labeled sentences, sampled into bags with a given imbalance.
//
// Load and Pair return sentences of two kinds, normal and anomalous. Protocol samples
// them into bags as in the paper: an anomalous bag has sigma_micro normal sentences and
// one anomalous one, a normal bag has sigma_micro+1 normal ones, and there are
// sigma_macro normal bags per anomalous one. Reviews creates natural bags: whole
// reviews, whose sentences are the instances and whose rating is the label.
//
// The label of a bag is that of the whole. Its Witness is the anomalous instance,
// which is not used in training.
package synthetic

import "errors"

var (
	// ErrTooFew reports that there are not enough sentences for the requested bags.
	ErrTooFew = errors.New("synthetic: too few sentences")
	// ErrProtocol reports invalid settings of the bags: a sigma below 1, a negative count.
	ErrProtocol = errors.New("synthetic: invalid settings")
	// ErrUnknown reports an unknown name of a data set.
	ErrUnknown = errors.New("synthetic: unknown data set")
	// ErrFormat reports that a file of a data set does not have the expected format.
	ErrFormat = errors.New("synthetic: damaged file")
)

// Sentences are labeled texts in two disjoint splits.
type Sentences struct {
	// SigmaMax is the largest sigma_micro of the paper's sweep over this data
	// set, which determines its number of bags; 0 for a data set that is not in the paper.
	SigmaMax    int
	Train, Test Split
}

// Split is the texts of one split by kind, in the order of their source.
type Split struct{ Normal, Anomalous []string }
