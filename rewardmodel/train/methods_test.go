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
		if _, stateful := m.(Stateful); stateful && Servable(m) {
			t.Errorf("%s has parameters that a served network lacks", name)
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

func TestServableMethodsScoreWithTheNetwork(t *testing.T) {
	for _, name := range Methods() {
		m, err := NewMethod(name, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		want := name == "bfgpu" || name == "oracle" || name == "mil-max" || name == "mil-topk" || strings.HasSuffix(name, "pu")
		if Servable(m) != want {
			t.Errorf("Servable(%s) = %v", name, !want)
		}
	}
}
