package encoder

import (
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"assay/rewardmodel"
)

// numericsVersion is the version of the arithmetic. Increase it with every change that can alter a bit of a score.
const numericsVersion = 3

// Numerics returns how the ids of Model.Numerics begin on this machine: the version of the arithmetic and the set of
// instructions. It is "" on a GPU, where scores depend on the batch.
func (r *Runtime) Numerics() string {
	if r.device.IsCuda() {
		return ""
	}
	return fmt.Sprintf("%d/%s", numericsVersion, instructionSet())
}

// instructionSet names what the matrix multiplications can use.
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

// hasAMX reports whether oneDNN multiplies with AMX, which its own variable ONEDNN_MAX_CPU_ISA can forbid.
func hasAMX() bool {
	limit := strings.ToUpper(os.Getenv("ONEDNN_MAX_CPU_ISA"))
	forbidden := limit != "" && limit != "ALL" && limit != "DEFAULT" && !strings.Contains(limit, "AMX")
	return cpu.X86.HasAMXBF16 && cpu.X86.HasAMXInt8 && !forbidden
}

// Numerics returns an id of the arithmetic, such as 3/avx512-bf16/int8/8d2c71f0: that of Runtime.Numerics, the precision,
// and a checksum of what this model computes for a few fixed sequences. Scores of the same weights with the same id are
// equal bit by bit, whatever else is in a batch, with any number of threads, in any process.
//
// It returns "" where scores depend on the batch: for a model whose layers run as tensor operations, where oneDNN multiplies
// bf16 with AMX, in an order of sums that depends on the number of rows, and if a sequence that it scores alone differs.
func (m *Model) Numerics() (string, error) {
	prefix := m.runtime.Numerics()
	if m.fused == nil || prefix == "" || m.fused.panels == nil && m.precision == BF16 && hasAMX() {
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
	return fmt.Sprintf("%s/%s/%08x", prefix, m.precision, sum), nil
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
