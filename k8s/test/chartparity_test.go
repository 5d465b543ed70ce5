package k8s

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// byName indexes objects. The settings in a ConfigMap are parsed, so that their
// format does not matter.
func byName(t *testing.T, objects []object) map[string]map[string]any {
	t.Helper()
	index := map[string]map[string]any{}
	for _, o := range objects {
		require.NotContains(t, index, name(o), "twice")
		require.Equal(t, namespace, o.GetNamespace(), name(o))
		if text, found, _ := unstructured.NestedString(o.Object, "data", "assay.yaml"); found {
			settings := map[string]any{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(text), &settings))
			require.NoError(t, unstructured.SetNestedField(o.Object, settings, "data", "assay.yaml"))
		}
		index[name(o)] = o.Object
	}
	return index
}

// The chart does not render what an overlay has only for its example workload.
func TestTheChartRendersWhatTheOverlaysDo(t *testing.T) {
	for overlay, values := range overlays(t) {
		t.Run(overlay, func(t *testing.T) {
			want, have := byName(t, kustomize(t, "overlays/"+overlay)), byName(t, helm(t, values))
			if values["sidecar"] != nil {
				for _, only := range []string{"NetworkPolicy/rlhf", "NetworkPolicy/inference", "Service/inference", "PodDisruptionBudget/inference"} {
					delete(want, only)
				}
			}
			require.NotEmpty(t, have)
			require.Equal(t, want, have)
		})
	}
}

func TestTheChartRendersWhatComponentsDo(t *testing.T) {
	for directory, values := range variants(t) {
		t.Run(directory, func(t *testing.T) {
			want := byName(t, kustomize(t, directory))
			delete(want, "NetworkPolicy/rlhf")
			require.Equal(t, want, byName(t, helm(t, values)))
		})
	}
}

// kubectl contains another version of Kustomize.
func TestKubectlRendersTheSame(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not on the PATH")
	}
	for overlay := range overlays(t) {
		out, err := exec.Command("kubectl", "kustomize", filepath.Join(root, "overlays", overlay)).Output()
		require.NoError(t, err, overlay)
		require.Equal(t, byName(t, kustomize(t, "overlays/"+overlay)), byName(t, parse(t, out)), overlay)
	}
}

func TestEveryOverlayIsTested(t *testing.T) {
	directories, err := os.ReadDir(filepath.Join(root, "overlays"))
	require.NoError(t, err)
	for _, directory := range directories {
		require.Contains(t, overlays(t), directory.Name())
	}
}

func TestOneImageAndVersion(t *testing.T) {
	chart, err := loader.LoadDir(filepath.Join(root, "chart"))
	require.NoError(t, err)
	var image struct {
		Images []struct{ Name, NewName, NewTag string }
	}
	text, err := os.ReadFile(filepath.Join(root, "components/image/kustomization.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &image))
	require.Len(t, image.Images, 1)
	require.Equal(t, chart.AppVersion(), image.Images[0].NewTag)
	require.Equal(t, chart.Metadata.Version, image.Images[0].NewTag)
	require.Equal(t, chart.Values["image"].(map[string]any)["repository"], image.Images[0].NewName)
}

func TestTheChartLints(t *testing.T) {
	for overlay, values := range overlays(t) {
		linter := lint.RunAll(filepath.Join(root, "chart"), values, namespace)
		for _, message := range linter.Messages {
			require.Less(t, message.Severity, support.WarningSev, "%s: %v", overlay, message)
		}
	}
}
