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

// byName indexes objects. The settings in a ConfigMap are compared as what they
// mean.
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

// The chart and the overlays say the same. What an overlay has for the workload
// of its example alone is no matter of the chart.
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

func TestSidecarsJoinNATSInBothWays(t *testing.T) {
	values := overlays(t)["sidecar-trainer"]
	values["sidecar"].(map[string]any)["nats"] = true
	have := named(t, helm(t, values), "Job/rlhf")
	require.Equal(t, named(t, kustomize(t, "test/testdata/sidecar-nats"), "Job/rlhf").Object, have.Object)
}

// kubectl has a Kustomize of its own, of another version.
func TestKubectlRendersTheSame(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl on the PATH")
	}
	for overlay := range overlays(t) {
		out, err := exec.Command("kubectl", "kustomize", filepath.Join(root, "overlays", overlay)).Output()
		require.NoError(t, err, overlay)
		require.Equal(t, byName(t, kustomize(t, "overlays/"+overlay)), byName(t, parse(t, out)), overlay)
	}
}

func TestEveryOverlayIsTested(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join(root, "overlays"))
	require.NoError(t, err)
	for _, folder := range folders {
		require.Contains(t, overlays(t), folder.Name())
	}
}

func TestOneVersion(t *testing.T) {
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
}

func TestTheChartLints(t *testing.T) {
	for overlay, values := range overlays(t) {
		linter := lint.RunAll(filepath.Join(root, "chart"), values, namespace)
		for _, message := range linter.Messages {
			require.Less(t, message.Severity, support.WarningSev, "%s: %v", overlay, message)
		}
	}
}
