package train

import "encoding"

// Method is a way to train a network on bags with coarse labels, and to score bags with it.
type Method interface {
	// Name is the name of the method on the command line and in the checkpoint.
	Name() string
	// Validate returns an error that names the setting that is out of range.
	Validate() error
	// Steps is the number of optimizer steps of one epoch; the cosine schedule spans all epochs.
	Steps(e *Epoch) int
	// Epoch trains for one epoch. Its randomness comes only from e.RNG, so that a resumed run repeats it.
	Epoch(e *Epoch) error
	// Score scores every bag of n.Data.
	Score(n *Network) ([]Score, error)
	// Threshold is how the method's source decides on a bag.
	Threshold() Threshold
}

// Stateful is a Method that learns parameters in addition to those of the network. They are part of the state of a run.
type Stateful interface {
	Method
	// Begin prepares the parameters before the first epoch; features have width elements.
	Begin(e *Epoch, width int) error
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}
