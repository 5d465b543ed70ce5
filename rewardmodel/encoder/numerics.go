package encoder

// #include "panels.h"
import "C"

import (
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

// numericsVersion is the version of the arithmetic. Increase it with every change that can alter a bit of a score.
const numericsVersion = 3

// Numerics returns how the ids of Model.Numerics begin on this machine: the version of the arithmetic and the set of
// instructions that a model of that precision computes with, but a ModernBERT. It is "" on a GPU, where scores depend on
// the batch.
func (r *Runtime) Numerics(p Precision) string {
	if r.device.IsCuda() {
		return ""
	}
	instructions := instructionSet()
	if p == Int8 || p == BF16 && r.bf16Panels(checkpoint.Config{}) {
		instructions = levelName(C.panel_best(isHalf(p)))
	}
	return numericsPrefix(instructions)
}

func numericsPrefix(instructions string) string {
	return fmt.Sprintf("%d/%s", numericsVersion, instructions)
}

// levelName is the set of instructions of a level of panels. A processor may support more: the operating system can deny
// AMX to a process.
func levelName(level C.int) string {
	switch level {
	case C.int8_amx, C.bf16_amx:
		return "amx"
	case C.bf16_avx512_bf16:
		return "avx512-bf16"
	case C.int8_avx512_vnni:
		return "avx512-vnni"
	case C.bf16_avx512:
		return "avx512"
	case C.int8_avx_vnni:
		return "avx2-vnni"
	case C.int8_avx2, C.bf16_avx2:
		return "avx2"
	}
	return runtime.GOARCH
}

// instructionSet names what the matrix multiplications of oneDNN can use.
func instructionSet() string {
	for _, level := range []struct {
		has  bool
		name string
	}{
		{hasAMX(), "amx"},
		{cpu.X86.HasAVX512BF16, "avx512-bf16"},
		{cpu.X86.HasAVX512VNNI, "avx512-vnni"},
		{cpu.X86.HasAVX512F, "avx512"},
		{cpu.X86.HasAVXVNNI, "avx2-vnni"},
		{cpu.X86.HasAVX2, "avx2"},
	} {
		if level.has {
			return level.name
		}
	}
	return runtime.GOARCH
}

// hasAMX reports whether oneDNN multiplies with AMX, which the operating system, and its own variable ONEDNN_MAX_CPU_ISA,
// can forbid.
func hasAMX() bool {
	limit := strings.ToUpper(os.Getenv("ONEDNN_MAX_CPU_ISA"))
	forbidden := limit != "" && limit != "ALL" && limit != "DEFAULT" && !strings.Contains(limit, "AMX")
	return cpu.X86.HasAMXBF16 && cpu.X86.HasAMXInt8 && !forbidden && C.panel_may_use_amx() != 0
}

// Numerics returns an id of the arithmetic, such as 3/avx512-bf16/bf16/8d2c71f0: the version of the arithmetic, the set of
// instructions that this model is computed with, the precision, and a checksum of what it computes for a few fixed
// sequences. Scores of the same weights with the same id are equal bit by bit, whatever else is in a batch, with any number
// of threads, in any process.
//
// It returns "" where scores depend on the batch: on a GPU, for a model whose layers run as tensor operations, where oneDNN
// multiplies bf16 with AMX, in an order of sums that depends on the number of rows, and if a sequence that it scores alone
// differs.
func (m *Model) Numerics() (string, error) {
	instructions := instructionSet()
	switch {
	case m.panels != nil:
		instructions = levelName(m.panels.level)
	case m.fused == nil || m.precision == BF16 && hasAMX():
		return "", nil
	}
	probes := m.probes()
	together, err := m.unwatched(probes)
	if err != nil {
		return "", err
	}
	alone, err := m.unwatched(probes[:1])
	if err != nil || !slices.Equal(asBytes(alone[0]), asBytes(together[0])) {
		return "", err
	}
	sum := crc32.ChecksumIEEE(asBytes(slices.Concat(together...)))
	return fmt.Sprintf("%s/%s/%08x", numericsPrefix(instructions), m.precision, sum), nil
}

// probes are sequences of few tokens from all over the vocabulary; the first has a single one.
func (m *Model) probes() []rewardmodel.Sequence {
	var probes []rewardmodel.Sequence
	token := 1
	for _, length := range []int{1, 13} {
		ids := make([]int32, min(length, m.MaxLength()))
		for i := range ids {
			token = (token*75 + 74) % 65537
			ids[i] = int32(token % m.net.cfg.Vocab)
		}
		probes = append(probes, rewardmodel.Sequence{IDs: ids})
	}
	return probes
}
