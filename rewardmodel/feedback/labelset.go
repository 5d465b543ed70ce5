package feedback

import (
	"fmt"
	"maps"
	"slices"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
)

// MaxAspects is the maximum number of aspects that all labels of a store name. A model
// has at most rewardmodel.MaxAspects; the others are mistyped, or those of earlier and
// later models.
const MaxAspects = 48

// labelSet is Labels as a record has them: of a fixed size, and without a pointer. The
// bits are the numbers of aspectNames, and wholeBit.
type labelSet struct{ violated, complied uint64 }

// wholeBit is the bit of the label of the whole response.
const wholeBit = 63

func (s *labelSet) put(bit int, l bag.Label) {
	switch l {
	case bag.Violation:
		s.violated |= 1 << bit
	case bag.Compliant:
		s.complied |= 1 << bit
	}
}

func (s labelSet) label(bit int) bag.Label {
	switch {
	case s.violated>>bit&1 != 0:
		return bag.Violation
	case s.complied>>bit&1 != 0:
		return bag.Compliant
	}
	return ""
}

// aspectNames numbers the aspects that labels name. Names are never removed: an index
// that is read again has only those of stored labels.
type aspectNames struct {
	names  []string
	number map[string]int
}

func newAspectNames() aspectNames { return aspectNames{number: map[string]int{}} }

// admit numbers the aspects of labels that are not stored yet. It returns an error if
// there are too many.
func (n *aspectNames) admit(l Labels) error {
	for _, name := range slices.Sorted(maps.Keys(l.Aspects)) {
		if _, known := n.number[name]; !known && len(n.names) >= MaxAspects {
			return fmt.Errorf("labels: %s is a new aspect, and the labels of this store name %d others, the maximum; use one of them, "+
				"or correct or erase labels of mistyped ones and restart the service", rewardmodel.Quote(name), len(n.names))
		}
		n.add(name)
	}
	return nil
}

// add numbers a name. It reports false if all numbers are taken, which requires several
// processes that admit different names at the same moment.
func (n *aspectNames) add(name string) (number int, ok bool) {
	number, ok = n.number[name]
	if !ok && len(n.names) < wholeBit {
		number, ok = len(n.names), true
		n.number[name] = number
		n.names = append(n.names, name)
	}
	return number, ok
}

// put returns the set of stored labels, and numbers their aspects.
func (n *aspectNames) put(l Labels) labelSet {
	for _, name := range slices.Sorted(maps.Keys(l.Aspects)) {
		n.add(name)
	}
	s, _ := n.set(l)
	return s
}

// set returns the set of labels, without the aspects that are not numbered; all reports
// whether every aspect is.
func (n *aspectNames) set(l Labels) (s labelSet, all bool) {
	s.put(wholeBit, l.Whole)
	all = true
	for name, label := range l.Aspects {
		number, known := n.number[name]
		if known {
			s.put(number, label)
		}
		all = all && known
	}
	return s, all
}

// labels is the inverse of set.
func (n *aspectNames) labels(s labelSet) Labels {
	l := Labels{Whole: s.label(wholeBit)}
	for number, name := range n.names {
		label := s.label(number)
		if label == "" {
			continue
		}
		if l.Aspects == nil {
			l.Aspects = map[string]bag.Label{}
		}
		l.Aspects[name] = label
	}
	return l
}
