package doctor

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"assay/rewardmodel/encoder"
	"assay/sidecar/localmodel"
)

// processor is what computes, and how.
type processor struct {
	arch                           string
	avx2, avx512, avx512bf16, vnni bool
	device                         string
	precisions                     []encoder.Precision // that the device supports
	setting                        encoder.Precision   // --precision
}

// readProcessor loads libtorch, which training needs, and asks for the device. The error names the setting.
func readProcessor(compute localmodel.Compute) (processor, error) {
	p := processor{
		arch: runtime.GOARCH, setting: compute.Precision,
		avx2: cpu.X86.HasAVX2, avx512: cpu.X86.HasAVX512F, avx512bf16: cpu.X86.HasAVX512BF16,
		vnni: cpu.X86.HasAVX512VNNI || cpu.X86.HasAVXVNNI,
	}
	torch, err := compute.Runtime()
	if err != nil {
		return p, err
	}
	defer torch.Close()
	if _, err := torch.Libtorch(); err != nil {
		return p, err
	}
	p.device, p.precisions = torch.Device(), torch.Precisions()
	return p, nil
}

func (p processor) findings() []Finding {
	var features []string
	for _, f := range []struct {
		name string
		has  bool
	}{{"AVX2", p.avx2}, {"AVX-512", p.avx512}, {"AVX-512 BF16", p.avx512bf16}, {"VNNI", p.vnni}} {
		if f.has {
			features = append(features, f.name)
		}
	}
	detail := fmt.Sprintf("%s with %s; device %s; --precision %s", p.arch, cmp.Or(strings.Join(features, ", "), "no vector extensions that assay uses"), p.device, p.setting)
	finding := func(status Status, problem, fix string) []Finding {
		return []Finding{{"processor", status, detail + problem, fix}}
	}
	if p.device != "cpu" {
		return finding(OK, "", "")
	}
	int8 := slices.Contains(p.precisions, encoder.Int8)
	switch {
	case p.setting == encoder.Int8 && !int8:
		return finding(Error, " is not supported", "set --precision bf16 or fp32; int8 needs a processor with AVX2")
	case p.arch == "amd64" && !p.avx2:
		return finding(Warning, ": scoring is slow without AVX2", "use a processor with AVX2 or AVX-512; in a virtual machine, pass the features of the host through")
	case p.setting == encoder.BF16 && !p.avx512bf16:
		return finding(Warning, " has no support in this processor, which emulates it", "set --precision auto")
	case p.arch == "amd64" && (p.setting == "" || p.setting == encoder.Auto) && !p.avx512bf16 && int8:
		return finding(Warning, " is fp32 without AVX-512 BF16", "set --precision int8, which is faster on this processor and is validated against fp32 when the model is loaded")
	case p.arch == "amd64" && (p.setting == "" || p.setting == encoder.Auto) && !p.avx512bf16:
		return finding(Warning, " is fp32 without AVX-512 BF16", "nothing to set; a processor with AVX-512 BF16 scores faster")
	case p.setting == "" || p.setting == encoder.Auto:
		floats := map[bool]string{true: " is bf16", false: " is fp32"}[p.avx512bf16]
		return finding(OK, floats+map[bool]string{true: ", and int8 for weights stored in int8"}[int8], "")
	}
	return finding(OK, "", "")
}
