// Package baseline has the methods of the BFGPU paper's comparison that cannot be served: they score whole responses, or
// have parameters that a checkpoint does not store. Each is one file that cites its source. They are trained by train.Run
// like the methods that can be served, which are in package train.
package baseline

import (
	"errors"
	"fmt"

	"assay/rewardmodel/train"
)

// ErrUntrained reports that a method has to be trained before it can score.
var ErrUntrained = errors.New("baseline: the method has not been trained")

// Methods returns the names of all methods, in the order of the paper's tables.
func Methods() []string {
	var names []string
	for _, m := range methods() {
		names = append(names, m.Name())
	}
	return names
}

// New returns the named method, untrained. The error lists the known names.
func New(name string) (train.Method, error) {
	for _, m := range methods() {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("baseline: method is %q; use one of %v", name, Methods())
}

func methods() []train.Method {
	return []train.Method{
		Macro{}, Macro{Sampling: Oversampling}, Macro{Sampling: Undersampling},
		&SAD{Macro: true}, &SAD{}, &SVDD{}, &Attention{}, &FGSA{}, &PReNET{},
	}
}
