package k8s

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// helmProgram has the version of the library that renders the chart in the other tests.
const helmProgram = "helm.sh/helm/v4/cmd/helm@v4.2.4"

// findHelm returns the helm on the PATH, or builds one.
func findHelm(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("helm"); err == nil {
		return path
	}
	dir := t.TempDir()
	install := exec.Command("go", "install", helmProgram)
	install.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOBIN="+dir)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("helm is not on the PATH and cannot be built: %v\n%s", err, out)
	}
	return filepath.Join(dir, "helm")
}

// testHelmRelease installs each release, upgrades it, with another image too, rolls
// it back and removes it.
func (c *cluster) testHelmRelease(t *testing.T) {
	program, home := findHelm(t), t.TempDir()
	helm := func(args ...string) (string, error) {
		cmd := exec.Command(program, append(args, "--namespace="+namespace, "--kubeconfig="+c.kubeconfig)...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		out, err := cmd.CombinedOutput()
		return strings.Join(args, " ") + ": " + string(out), err
	}
	for overlay, values := range overlays(t) {
		t.Run(overlay, func(t *testing.T) {
			text, err := yaml.Marshal(values)
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(file, text, 0o600))
			with := []string{"assay", filepath.Join(root, "chart"), "--values=" + file}

			out, err := helm(append([]string{"install"}, with...)...)
			require.NoError(t, err, out)
			t.Cleanup(func() {
				out, err := helm("uninstall", "assay")
				require.NoError(t, err, out)
			})
			out, err = helm(append([]string{"upgrade"}, with...)...)
			require.NoError(t, err, out)

			out, err = helm(append([]string{"upgrade", "--set=image.tag=99.0.0"}, with...)...)
			if overlay == "sidecar-trainer" {
				require.Error(t, err)
				require.Contains(t, out, "field is immutable", "docs/kubernetes.md says to delete a Job first")
				return
			}
			require.NoError(t, err, out)
			c.hasImages(t, overlay, ":99.0.0")
			out, err = helm("rollback", "assay", "1")
			require.NoError(t, err, out)
			c.hasImages(t, overlay, "")
		})
	}
}

// hasImages checks the image tag of the stored containers of assay: tag or, if that is
// empty, the tag of the overlay.
func (c *cluster) hasImages(t *testing.T, overlay, tag string) {
	t.Helper()
	for _, o := range kustomize(t, "overlays/"+overlay) {
		pod := podOf(t, o)
		if pod == nil {
			continue
		}
		have, err := c.get(t, o)
		require.NoError(t, err)
		want, _ := assayContainer(t, pod)
		found, _ := assayContainer(t, podOf(t, *have))
		if tag != "" {
			want.Image = want.Image[:strings.LastIndex(want.Image, ":")] + tag
		}
		require.Equal(t, want.Image, found.Image, name(o))
	}
}
