package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// edit is one fix of gotch's text: each match of Old becomes New, and there
// must be exactly Count of them, or the patch no longer fits the text.
type edit struct {
	File  string
	Why   string
	Old   string // regular expression
	New   string // may use the groups of Old: ${1}
	Count int
}

// The out-pointers of operators: gotch takes them from malloc(0), writes
// eight bytes into each and never frees it.
const (
	outOld = `\(\*lib\.Ctensor\)\(unsafe\.Pointer\(C\.malloc\(0\)\)\)`
	outWhy = "operators wrote 8 bytes into a malloc(0) that they leaked"
)

// edits is the whole patch, but for keepAlive and the cgo flags. The lesser
// parts of gotch that assay does not use (TorchScript, images, nn) stay as they are.
var edits = []edit{
	{"ts/tensor-generated.go", outWhy, `ptr := ` + outOld, `ptr := new(lib.Ctensor)`, 2221},
	{"ts/tensor-generated.go", outWhy, `ctensorPtr0 := ` + outOld, `ctensorPtr0 := &new([7]lib.Ctensor)[0]`, 226},
	{"ts/patch.go", outWhy, `(?m)^(\t)ptr := ` + outOld, `${1}ptr := new(lib.Ctensor)`, 1},
	{"ts/patch.go", outWhy, `ctensorPtr1 := ` + outOld, `ctensorPtr1 := &new([3]lib.Ctensor)[0]`, 3},
	{"ts/tensor.go", outWhy, `(?m)^(\t)ptr := ` + outOld, `${1}ptr := new(lib.Ctensor)`, 1},

	{"ts/tensor-generated.go", "the generated file no longer needs cgo", `// #include "stdlib\.h"\nimport "C"\n`, "", 1},
	{"ts/tensor-generated.go", "for keepAlive", `import\(\n`, "import(\n  \"runtime\"\n", 1},
	{"ts/patch.go", "for keepAlive", `\t"log"\n`, "\t\"log\"\n\t\"runtime\"\n", 1},

	{"ts/tensor-generated.go", "in-place operators leaked the second handle that libtorch returns, and with it the tensor's memory",
		`(lib\.Atg_?[A-Za-z]\w*\(ptr, ts\.ctensor[^\n]*\n  if err = TorchErr\(\); err != nil \{\n[^\n]*\n    return err\n  \}\n)  ts\.ctensor = \*ptr`,
		"${1}  lib.AtFree(*ptr)", 240},

	{"ts/patch.go", "Chunk, Split, Unbind and their like leaked the list of results",
		`\tcurrentPtr := ctensorsPtr\n`, "\tdefer C.free(unsafe.Pointer(ctensorsPtr))\n${0}", 9},

	{"ts/tensor.go", "each tensor carried 100 KB of ballast, and a name in a global table under a lock",
		`(?s)type bigStruct struct \{.*?\n\}\n`, "", 1},
	{"ts/tensor.go", "see above", `\td          \*bigStruct\n`, "", 1},
	{"ts/tensor.go", "see above", `(?s)func newTensor\(.*?\n\}\n`, `// LiveTensors counts the tensors that are not yet freed.
var LiveTensors atomic.Int64

func newTensor(ctensor lib.Ctensor, nameOpt ...string) *Tensor {
	x := &Tensor{ctensor: ctensor}
	if len(nameOpt) > 0 {
		x.name = nameOpt[0]
	}
	LiveTensors.Add(1)
	runtime.SetFinalizer(x, freeCTensor)
	return x
}
`, 1},
	{"ts/tensor.go", "see above", `(?s)func freeCTensor\(.*?\n\}\n`, `func freeCTensor(x *Tensor) error {
	if x == nil || x.ctensor == nil {
		return nil
	}
	runtime.SetFinalizer(x, nil)
	lib.AtFree(x.ctensor)
	x.ctensor = nil
	LiveTensors.Add(-1)
	return nil
}
`, 1},

	{"ts/scalar.go", "Drop of a scalar did nothing", `(?s)func freeCScalar\(.*?\n\}\n`, `func freeCScalar(x *Scalar) error {
	if x == nil || x.cscalar == nil {
		return nil
	}
	runtime.SetFinalizer(x, nil)
	lib.AtsFree(x.cscalar)
	x.cscalar = nil
	return nil
}
`, 1},
	{"ts/scalar.go", "see above", `(?s)func newScalar\(.*?\n\}\n`, `func newScalar(cscalar lib.Cscalar) *Scalar {
	x := &Scalar{cscalar: cscalar}
	runtime.SetFinalizer(x, freeCScalar)
	return x
}
`, 1},
	{"ts/scalar.go", "see above", `(?s)(func \(sc \*Scalar\) Drop\(\) \(err error\) \{\n).*?\n\}\n`, "${1}\treturn freeCScalar(sc)\n}\n", 1},
	{"ts/scalar.go", "see above", `\t"log"\n\t"runtime"\n\t"sync/atomic"\n\n\t"github\.com/sugarme/gotch"\n`, "\t\"runtime\"\n\n", 1},

	{"ts/tensor.go", "RunBackward wrote all gradients behind a pointer to one",
		`(?s)\tfor i := 0; i < len\(inputs\); i\+\+ \{\n\t\toutputPtr := ` + outOld + `.*?\n\t\}\n`,
		"\toutputs := make([]lib.Ctensor, len(inputs))\n\tfor i := range outputs {\n\t\toutputsPtr = append(outputsPtr, &outputs[i])\n\t}\n", 1},
	{"ts/tensor.go", "see above", `\tctensor := tensors\[0\]\.ctensor\n\tcinput := inputs\[0\]\.ctensor\n`,
		"\troots, leaves := make([]lib.Ctensor, len(tensors)), make([]lib.Ctensor, len(inputs))\n" +
			"\tfor i, t := range tensors {\n\t\troots[i] = t.ctensor\n\t}\n\tfor i, t := range inputs {\n\t\tleaves[i] = t.ctensor\n\t}\n", 1},
	{"ts/tensor.go", "see above", `\(\*lib\.Ctensor\)\(unsafe\.Pointer\(&ctensor\)\)\n\tinputsPtr := \(\*lib\.Ctensor\)\(unsafe\.Pointer\(&cinput\)\)`,
		"&roots[0]\n\tinputsPtr := &leaves[0]", 1},

	{"ts/tensor.go", "importing gotch called libtorch", `var None = NewTensor\(\)`, `var None = new(Tensor)`, 1},

	{"init.go", "importing gotch created a directory, or exited the process where it could not",
		`(?s)\n\tif _, err := os\.Stat\(CachedDir\); .*?\n\t\}\n\}\n`, "}\n", 1},
	{"init.go", "see above", `\t"log"\n`, "", 1},
}

// handleCalls counts the calls into libtorch that keepAlive guards.
var handleCalls = map[string]int{"ts/tensor-generated.go": 2685, "ts/tensor.go": 28, "ts/patch.go": 13, "ts/scalar.go": 4}

// applyPatches fixes the copy of gotch in dir and sets its cgo flags.
func applyPatches(dir, flags string) error {
	texts := make(map[string]string)
	load := func(file string) error {
		if _, ok := texts[file]; ok {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		texts[file] = string(text)
		return err
	}
	for _, e := range edits {
		if err := load(e.File); err != nil {
			return err
		}
		text, err := e.apply(texts[e.File])
		if err != nil {
			return err
		}
		texts[e.File] = text
	}
	for file, want := range handleCalls {
		text, got := keepAlive(texts[file])
		if got != want {
			return fmt.Errorf("%s: the patch guards %d calls, expected %d: gotch %s's text has changed", file, got, want, gotchVersion)
		}
		texts[file] = text
	}
	texts["libtch/lib.go"] = "package libtch\n\n" + flags + "\nimport \"C\"\n"
	for file, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// apply edits text, or fails when the number of matches is not the expected one.
func (e edit) apply(text string) (string, error) {
	old := regexp.MustCompile(e.Old)
	if got := len(old.FindAllStringIndex(text, -1)); got != e.Count {
		return "", fmt.Errorf("%s: the patch %q matches %d times, expected %d: gotch %s's text has changed", e.File, e.Why, got, e.Count, gotchVersion)
	}
	return old.ReplaceAllString(text, e.New), nil
}

var (
	handleParam = regexp.MustCompile(`\b(\w+) (?:\[\])?\*?(?:Tensor|Scalar)\b`)
	handleCall  = regexp.MustCompile(`^\s*(?:\w+ :?= )?lib\.At\w+\(.*\)$`)
)

// keepAlive guards every call into libtorch: gotch passes bare C handles, so a
// tensor whose last use is the call could be finalized, and its memory freed,
// while libtorch works on it. After each call a runtime.KeepAlive holds the
// function's receiver and arguments. It returns the number of guarded calls.
func keepAlive(text string) (string, int) {
	var out strings.Builder
	var guard string
	count := 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		if strings.HasPrefix(line, "func") {
			guard = ""
			for _, m := range handleParam.FindAllStringSubmatch(line, -1) {
				if !strings.HasPrefix(m[1], "retVal") {
					guard += "runtime.KeepAlive(" + m[1] + "); "
				}
			}
		}
		out.WriteString(line)
		if guard != "" && handleCall.MatchString(strings.TrimRight(line, " \n")) {
			out.WriteString("\t" + strings.TrimSuffix(guard, "; ") + "\n")
			count++
		}
	}
	return out.String(), count
}
