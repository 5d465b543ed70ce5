package k8s

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// kubeScore runs as a separate program, because it needs older modules than Helm.
const kubeScore = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"

func TestKubeScoreFindsNothingCritical(t *testing.T) {
	dir := t.TempDir()
	install := exec.Command("go", "install", kubeScore)
	install.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOBIN="+dir)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("kube-score cannot be built: %v\n%s", err, out)
	}
	for overlay := range overlays(t) {
		t.Run(overlay, func(t *testing.T) {
			var manifest bytes.Buffer
			for _, o := range kustomize(t, "overlays/"+overlay) {
				text, err := yaml.Marshal(o.Object)
				require.NoError(t, err)
				manifest.WriteString("---\n")
				manifest.Write(text)
			}
			args := []string{"score", "--output-format", "json", "--output-version", "v2", "--kubernetes-version", "v1.32"}
			if strings.HasPrefix(overlay, "sidecar") { // whose limit would be that of the workload: TestResourcesBoundAssay
				args = append(args, "--ignore-test", "container-ephemeral-storage-request-and-limit")
			}
			cmd := exec.Command(dir+"/kube-score", append(args, "-")...)
			cmd.Stdin = &manifest
			out, err := cmd.Output() // fails where anything is critical
			var scored []struct {
				ObjectName string `json:"object_name"`
				Checks     []struct {
					Check    struct{ Name string }
					Grade    int
					Skipped  bool
					Comments []struct{ Summary string }
				}
			}
			require.NoError(t, json.Unmarshal(out, &scored), "%v: %s", err, out)
			require.NotEmpty(t, scored)
			const critical = 1
			for _, o := range scored {
				for _, c := range o.Checks {
					require.False(t, !c.Skipped && c.Grade <= critical, "%s: %s: %v", o.ObjectName, c.Check.Name, c.Comments)
				}
			}
			require.NoError(t, err)
		})
	}
}
