package paper

import (
	"cmp"
	"maps"
	"slices"
)

// difference lists the settings of a run that are not the defaults of its method; a default that is absent shows as
// name=- so that nothing is hidden.
func difference(s Spec) string {
	defaults, out := DefaultSettings(s.Method), Settings{}
	maps.Copy(out, s.Settings)
	for name, value := range defaults {
		switch set, ok := out[name]; {
		case !ok:
			out[name] = "-"
		case set == value:
			delete(out, name)
		}
	}
	return out.String()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
