package k8s

import (
	"bytes"
	"io"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestMain keeps Helm from logging each link that it follows.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	m.Run()
}

const (
	root      = ".." // the folder k8s
	namespace = "assay"
)

type object = unstructured.Unstructured

// overlays are those of k8s/overlays, and the values that make the chart
// render the same.
func overlays(t *testing.T) map[string]map[string]any {
	beside := func(overlay string) map[string]any {
		workload := read(t, filepath.Join(root, "overlays", overlay, "workload.yaml"))[0]
		return map[string]any{
			"service": map[string]any{"enabled": false},
			"sidecar": map[string]any{"workloads": []any{workload.Object}},
		}
	}
	lag := map[string]any{"autoscaling": map[string]any{"by": "lag"}}
	return map[string]map[string]any{
		"standalone": {},
		"keda":       {"service": lag},
		"fleet": {
			"service": lag, "trainer": map[string]any{"enabled": true}, "monitoring": map[string]any{"enabled": true},
		},
		"sidecar-trainer":   beside("sidecar-trainer"),
		"sidecar-inference": beside("sidecar-inference"),
	}
}

// kustomize renders a folder below k8s.
func kustomize(t *testing.T, folder string) []object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, folder))
	require.NoError(t, err)
	text, err := built.AsYaml()
	require.NoError(t, err)
	return parse(t, text)
}

// helm renders the chart as "helm template assay k8s/chart --namespace assay".
func helm(t *testing.T, values map[string]any) []object {
	t.Helper()
	return release(t, "assay", filepath.Join(root, "chart"), values)
}

// release renders the chart in a folder or archive.
func release(t *testing.T, name, path string, values map[string]any) []object {
	t.Helper()
	chart, err := loader.Load(path)
	require.NoError(t, err)
	options := common.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, common.DefaultCapabilities)
	require.NoError(t, err)
	files, err := engine.Render(chart, all)
	require.NoError(t, err)
	var objects []object
	for file, text := range files {
		if filepath.Ext(file) == ".yaml" {
			objects = append(objects, parse(t, []byte(text))...)
		}
	}
	return objects
}

func read(t *testing.T, path string) []object {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return parse(t, text)
}

func parse(t *testing.T, text []byte) (objects []object) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var o object
		switch err := decoder.Decode(&o.Object); {
		case err == io.EOF:
			return objects
		case err != nil:
			t.Fatalf("%v in:\n%s", err, text)
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}

// name tells objects apart.
func name(o object) string { return o.GetKind() + "/" + o.GetName() }

// named is the object of that name, such as Deployment/assay.
func named(t *testing.T, objects []object, want string) object {
	t.Helper()
	for _, o := range objects {
		if name(o) == want {
			return o
		}
	}
	t.Fatalf("there is no %s", want)
	return object{}
}
