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

// TestMain keeps Helm from logging each symbolic link that it follows.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	m.Run()
}

const (
	root      = ".." // the directory k8s
	namespace = "assay"
	image     = "registry.example.com/assay:" // without its tag
)

type object = unstructured.Unstructured

// overlays are those of k8s/overlays, with the values for which the chart renders
// the same objects.
func overlays(t *testing.T) map[string]map[string]any {
	withSidecar := func(overlay string) map[string]any {
		workload := read(t, filepath.Join(root, "overlays", overlay, "workload.yaml"))[0]
		return map[string]any{
			"service": map[string]any{"enabled": false},
			"sidecar": map[string]any{"workloads": []any{workload.Object}},
		}
	}
	guarded := withSidecar("sidecar-inference")
	guarded["sidecar"].(map[string]any)["proxy"] = map[string]any{"enabled": true}
	lag := map[string]any{"autoscaling": map[string]any{"by": "lag"}}
	return map[string]map[string]any{
		"standalone": {},
		"http-only":  {"nats": map[string]any{"enabled": false}},
		"keda":       {"service": lag},
		"fleet": {
			"service": lag, "trainer": map[string]any{"enabled": true}, "monitoring": map[string]any{"enabled": true},
		},
		"sidecar-trainer":   withSidecar("sidecar-trainer"),
		"sidecar-inference": withSidecar("sidecar-inference"),
		"sidecar-proxy":     guarded,
	}
}

// variants are overlays that combine more components, by directory below k8s, with
// the values for which the chart renders the same objects.
func variants(t *testing.T) map[string]map[string]any {
	onVolume := overlays(t)["fleet"]
	onVolume["model"] = map[string]any{
		"volume": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "assay-model", "readOnly": true}}, "path": "judge",
	}
	fromHub := overlays(t)["http-only"]
	fromHub["model"] = map[string]any{"hub": map[string]any{"repository": "your-org/judge@v2"}}
	joined := overlays(t)["sidecar-trainer"]
	joined["sidecar"].(map[string]any)["nats"] = true
	return map[string]map[string]any{
		"test/testdata/model-volume": onVolume,
		"test/testdata/model-hub":    fromHub,
		"test/testdata/sidecar-nats": joined,
	}
}

// kustomize renders a directory below k8s.
func kustomize(t *testing.T, directory string) []object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, directory))
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

// release renders the chart in a directory or archive.
func release(t *testing.T, name, path string, values map[string]any) []object {
	t.Helper()
	files, err := renderChart(t, name, path, values)
	require.NoError(t, err)
	var objects []object
	for file, text := range files {
		if filepath.Ext(file) == ".yaml" {
			objects = append(objects, parse(t, []byte(text))...)
		}
	}
	return objects
}

// renderChart returns the rendered files, or why Helm rejects the values.
func renderChart(t *testing.T, name, path string, values map[string]any) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(path)
	require.NoError(t, err)
	options := common.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
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

// name identifies an object.
func name(o object) string { return o.GetKind() + "/" + o.GetName() }

// named is the object of that name, such as Deployment/assay.
func named(t *testing.T, objects []object, want string) object {
	t.Helper()
	for _, o := range objects {
		if name(o) == want {
			return o
		}
	}
	t.Fatalf("no %s", want)
	return object{}
}
