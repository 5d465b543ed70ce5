package k8s

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testKubectl runs the commands of docs/kubernetes.md.
func (c *cluster) testKubectl(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not on the PATH")
	}
	kubectl := func(t *testing.T, args ...string) string {
		t.Helper()
		cmd := exec.Command("kubectl", append(args, "--kubeconfig="+c.kubeconfig)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "kubectl %s: %s", strings.Join(args, " "), out)
		return string(out)
	}
	for overlay := range overlays(t) {
		t.Run(overlay, func(t *testing.T) {
			directory := filepath.Join(root, "overlays", overlay)
			t.Cleanup(func() { kubectl(t, "delete", "-k", directory, "--wait=false") })
			kubectl(t, "apply", "-k", directory, "--server-side", "--dry-run=server")
			kubectl(t, "apply", "-k", directory)
			kubectl(t, "diff", "-k", directory) // fails on any difference
			for line := range strings.Lines(kubectl(t, "apply", "-k", directory)) {
				if !strings.HasPrefix(line, "poddisruptionbudget") { // whose selector kubectl sends each time
					require.Contains(t, line, " unchanged")
				}
			}
		})
	}
}
