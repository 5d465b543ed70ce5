// Package synthetic makes the bags on which the BFGPU paper compares methods:
// labelled sentences, drawn into bags of a chosen imbalance.
//
// A set of sentences of two kinds, normal and anomalous, comes from Load or
// Pair. Protocol draws them into bags as the paper does: an anomalous bag holds
// sigma_micro normal sentences and one anomalous one, a normal bag holds
// sigma_micro+1 normal ones, and there are sigma_macro normal bags for each
// anomalous one. Reviews makes bags that nobody planted: whole reviews, whose
// sentences are the instances and whose rating is the label.
//
// A bag carries the label of the whole; which instance was planted stands in
// its Witness, which no training looks at.
package synthetic

import "errors"

var (
	// ErrTooFew says that there are not enough sentences for the bags asked for.
	ErrTooFew = errors.New("synthetic: too few sentences")
	// ErrProtocol says that there are no such bags as asked for: a sigma below 1, a negative count.
	ErrProtocol = errors.New("synthetic: impossible bags")
	// ErrUnknown says that Load knows no data set of this name.
	ErrUnknown = errors.New("synthetic: unknown data set")
	// ErrFormat says that a file of a data set is not what its reader expects.
	ErrFormat = errors.New("synthetic: damaged file")
)

// Sentences are labelled texts in two splits that share none.
type Sentences struct {
	// SigmaMax is the largest sigma_micro of the paper's sweep over this data
	// set, which fixes its number of bags; 0 when it is none of the paper's.
	SigmaMax    int
	Train, Test Split
}

// Split holds the texts of one split by kind, in the order of their source.
type Split struct{ Normal, Anomalous []string }
