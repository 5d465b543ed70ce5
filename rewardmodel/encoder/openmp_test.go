package encoder

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

// TestOpenMPStartsFewerThreads scores with four threads in processes whose OpenMP is set to start fewer.
func TestOpenMPStartsFewerThreads(t *testing.T) {
	const variable = "ASSAY_TEST_MARGINS_OF"
	if dir := os.Getenv(variable); dir != "" {
		fmt.Println("margins:", marginsOnFourThreads(t, dir))
		return
	}
	dir := randomCheckpoint(t, rand.New(rand.NewPCG(3, 4)), 128, 2, 512, checkpoint.GELU, "a")
	scored := func(environment string) string {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenMPStartsFewerThreads$", "-test.count=1")
		child.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "OMP_") }), variable+"="+dir, environment)
		out, err := child.CombinedOutput()
		_, margins, found := strings.Cut(string(out), "margins:")
		if err != nil || !found {
			t.Fatalf("%s: %v: %s", environment, err, out)
		}
		margins, _, _ = strings.Cut(margins, "\n")
		return margins
	}
	want := scored("OMP_DYNAMIC=false")
	for _, environment := range []string{"OMP_THREAD_LIMIT=1", "OMP_THREAD_LIMIT=3", "OMP_DYNAMIC=true"} {
		if got := scored(environment); got != want {
			t.Errorf("with %s the margins are%s, want%s", environment, got, want)
		}
	}
}

// marginsOnFourThreads scores sequences of many lengths with the checkpoint in dir, in hexadecimal.
func marginsOnFourThreads(t *testing.T, dir string) []string {
	r, err := NewRuntime(RuntimeOptions{Threads: 4, Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	m := loadModel(t, r, dir, FP32)
	var batch []rewardmodel.Sequence
	for n := 1; n < 100; n += 7 {
		batch = append(batch, rewardmodel.Sequence{IDs: make([]int32, n)})
		for k := range n {
			batch[len(batch)-1].IDs[k] = int32(k * n % m.net.cfg.Vocab)
		}
	}
	var all []string
	for _, v := range margins(t, m, batch) {
		all = append(all, fmt.Sprintf("%x", v))
	}
	return all
}
