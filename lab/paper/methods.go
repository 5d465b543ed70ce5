package paper

import (
	"slices"
	"strings"
)

// The methods, by the names that a Spec takes.
const (
	BFGPU        = "bfgpu"
	Macro        = "macro"       // supervised on whole bags
	MacroOver    = "macro-over"  // with over-sampling of the rarer class
	MacroUnder   = "macro-under" // with under-sampling of the more frequent class
	SADMacro     = "sad-macro"   // DeepSAD
	SADMicro     = "sad-micro"
	SVDD         = "svdd" // DeepSVDD on the instances of normal bags
	MILMax       = "mil-max"
	MILTopK      = "mil-topk"
	MILAttention = "mil-attention"
	MILFGSA      = "mil-fgsa"
	MILPReNET    = "mil-prenet"
	UPU          = "upu"
	NNPU         = "nnpu"
	BalancedPU   = "balancedpu"
	RobustPU     = "robustpu"
	Oracle       = "oracle" // trained on the labels of the instances
)

// PLADT is the suffix of a PU method that adds the paper's pseudo labels and adjusted decision threshold.
const PLADT = "+pl+adt"

// JudgePrefix is the prefix of the methods that ask a language model.
const JudgePrefix = "llm:"

// PUMethods lists the methods that take the suffix PLADT.
func PUMethods() []string { return []string{UPU, NNPU, BalancedPU, RobustPU} }

// Methods lists all methods but the judges, in the order of the paper's tables.
func Methods() []string {
	methods := []string{
		Macro, SADMacro, MacroUnder, MacroOver, MILMax, MILTopK, MILAttention, MILFGSA, MILPReNET, SADMicro, SVDD,
		UPU, NNPU, BalancedPU, RobustPU,
	}
	for _, m := range PUMethods() {
		methods = append(methods, m+PLADT)
	}
	return append(methods, BFGPU, Oracle)
}

func knownMethod(name string) bool {
	judge, ok := strings.CutPrefix(name, JudgePrefix)
	return slices.Contains(Methods(), name) || ok && oneWord(judge)
}

// Judge reports whether the run asks a language model instead of training.
func (s Spec) Judge() bool { return strings.HasPrefix(s.Method, JudgePrefix) }

// title is the name of a method in the report.
func title(method string) string {
	base, pladt := strings.CutSuffix(method, PLADT)
	names := map[string]string{
		BFGPU: "BFGPU", Macro: "Macro supervised", MacroOver: "Macro, over-sampling", MacroUnder: "Macro, under-sampling",
		SADMacro: "DeepSAD, macro", SADMicro: "DeepSAD, micro", SVDD: "DeepSVDD, micro", MILMax: "MIL max-pooling",
		MILTopK: "MIL top-k", MILAttention: "MIL attention", MILFGSA: "MIL FGSA", MILPReNET: "MIL PReNET",
		UPU: "uPU", NNPU: "nnPU", BalancedPU: "balancedPU", RobustPU: "robustPU", Oracle: "Oracle (instance labels)",
	}
	name, ok := names[base]
	switch {
	case !ok:
		return strings.TrimPrefix(method, JudgePrefix)
	case pladt:
		return name + " + pseudo labels + ADT"
	}
	return name
}
