package train

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
)

// Method is a way to train a network on bags with coarse labels, and to score bags with it. Those of this package train the
// network's own classifier of instances, so that a checkpoint is all that serving needs. Other packages may have others.
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
	// Threshold is the decision rule of the method's publication.
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

// Settings are the options of NewMethod; a method ignores those that it does not have.
type Settings struct {
	BFGPU        BFGPU   // the zero value means DefaultBFGPU
	PseudoLabels bool    // of the PU methods: adds BFGPU's second stage to each epoch
	SigmaMicro   float64 // of BFGPU (unless it gives its own) and the PU methods; 0 estimates it from the bags
	TopK         int     // of mil-topk; 0 means the paper's 3
}

// Methods returns the names of the methods of this package: BFGPU, the paper's baselines that can be served, in the order of
// its tables, and the oracle.
func Methods() []string {
	all := Settings{}.methods()
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name()
	}
	return names
}

// NewMethod returns the named method, untrained. The error lists the known names, or names the setting that is out of
// range.
func NewMethod(name string, s Settings) (Method, error) {
	if name == "mil-topk" && s.TopK == 1 {
		return nil, errors.New("train: mil-topk with a top-k of 1 is mil-max; use that, or a top-k of at least 2")
	}
	for _, m := range s.methods() {
		if m.Name() != name {
			continue
		}
		if err := m.Validate(); err != nil {
			return nil, err
		}
		return m, nil
	}
	return nil, fmt.Errorf("train: method is %q; use one of %v", name, Methods())
}

func (s Settings) methods() []Method {
	bfgpu := cmp.Or(s.BFGPU, DefaultBFGPU())
	bfgpu.SigmaMicro = cmp.Or(bfgpu.SigmaMicro, s.SigmaMicro)
	pu := func(risk PURisk) Method {
		return PU{Risk: risk, PseudoLabels: s.PseudoLabels, SigmaMicro: s.SigmaMicro}
	}
	return []Method{
		bfgpu,
		Pooling{Top: 1}, Pooling{Top: cmp.Or(s.TopK, 3)},
		pu(UPU), pu(NNPU), pu(BalancedPU), RobustPU{PseudoLabels: s.PseudoLabels},
		Oracle{},
	}
}

// servable reports whether the trained network alone scores instances as m does, as with the methods of this package. Others
// may score whole bags, or use parameters that are not part of a checkpoint.
func servable(m Method) bool {
	switch m.(type) {
	case BFGPU, PU, RobustPU, Pooling, Oracle:
		return true
	}
	return false
}
