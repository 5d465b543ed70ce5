package train

import (
	"slices"
	"strings"
	"testing"
)

func TestMethodsAreBuiltByName(t *testing.T) {
	names := Methods()
	for _, name := range names {
		m, err := NewMethod(name, Settings{PseudoLabels: true, SigmaMicro: 2})
		if err != nil || m.Name() != name {
			t.Errorf("%s: %v, %v", name, m, err)
			continue
		}
		if err := m.Threshold().Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(Methods()) {
		t.Errorf("two methods share a name: %v", names)
	}
	if _, err := NewMethod("bfgpuu", Settings{}); err == nil || !strings.Contains(err.Error(), "balancedpu") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestSettingsReachTheirMethod(t *testing.T) {
	if m, _ := NewMethod("mil-topk", Settings{}); m != (Pooling{Top: 3}) {
		t.Errorf("mil-topk is %+v", m)
	}
	if m, _ := NewMethod("upu", Settings{PseudoLabels: true, SigmaMicro: 4}); m != (PU{UPU, true, 4}) {
		t.Errorf("upu is %+v", m)
	}
	if m, _ := NewMethod("bfgpu", Settings{SigmaMicro: 4}); m.(BFGPU).SigmaMicro != 4 || m.(BFGPU).Weights != WeightsBatch {
		t.Errorf("bfgpu is %+v", m)
	}
	for name, s := range map[string]Settings{
		"mil-topk": {TopK: 1},
		"nnpu":     {SigmaMicro: -1},
		"bfgpu":    {BFGPU: BFGPU{Weights: "all"}},
	} {
		if _, err := NewMethod(name, s); err == nil {
			t.Errorf("%s of %+v: no error", name, s)
		}
	}
}

// wholeBags is a method of another package, which cannot be served: it scores whole bags.
type wholeBags struct{ Method }

func (wholeBags) Name() string { return "whole-bags" }

func (wholeBags) Validate() error { return nil }

func TestMethodsOfThisPackageAreServable(t *testing.T) {
	for _, m := range (Settings{}).methods() {
		if _, stateful := m.(Stateful); stateful || !servable(m) {
			t.Errorf("%s is not servable", m.Name())
		}
	}
	if servable(wholeBags{}) {
		t.Error("a method of another package is servable")
	}
}
