package encoder

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"assay/rewardmodel/checkpoint"
)

// TestPanelsNeedNoLibtorch scores in bf16 in a process of its own, as it is laid out and from its file: neither loads libtorch,
// and fp32 does.
func TestPanelsNeedNoLibtorch(t *testing.T) {
	const variable = "ASSAY_TEST_LIBRARIES_OF"
	if dir := os.Getenv(variable); dir != "" {
		librariesOf(t, dir)
		return
	}
	r := newRuntime(t)
	if !r.bf16Panels(checkpoint.Config{}) {
		t.Skip("no panels in bf16 here")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanelsNeedNoLibtorch$", "-test.count=1")
	child.Env = append(os.Environ(), variable+"="+randomCheckpoint(t, rand.New(rand.NewPCG(3, 4)), 64, 2, 128, checkpoint.GELU, "a"))
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"started false\n", "laid out false\n", "from a file false\n", "fp32 true\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// librariesOf prints after each step whether the process has loaded libtorch.
func librariesOf(t *testing.T, dir string) {
	loaded := func(step string) {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip(err)
		}
		fmt.Println(step, strings.Contains(string(maps), "libtorch_cpu"))
	}
	r, err := NewRuntime(RuntimeOptions{Device: "cpu", PackedDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	loaded("started")
	for _, step := range []string{"laid out", "from a file"} {
		m := loadModel(t, r, dir, BF16)
		margins(t, m, sequences([]int32{1, 2, 3}))
		if id, err := m.Numerics(); err != nil || id == "" {
			t.Errorf("numerics %q, %v", id, err)
		}
		loaded(step)
	}
	margins(t, loadModel(t, r, dir, FP32), sequences([]int32{1, 2, 3}))
	loaded("fp32")
	if path, err := r.Libtorch(); err != nil || !strings.Contains(path, "libtorch") {
		t.Errorf("libtorch is %q, %v", path, err)
	}
}
