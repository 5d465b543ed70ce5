package k8s

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// clients are the releases of client-go with the schemas of a Kubernetes version:
// server-side apply merges by them, so they have every field.
var clients = map[string]string{
	"1.29": "v0.29.15", "1.30": "v0.30.14", "1.31": "v0.31.14", "1.32": "v0.32.13", "1.33": "v0.33.13",
	"1.34": "v0.34.13", "1.35": "v0.35.10", "1.36": "v0.36.6", "1.37": "v0.37.2",
}

// module is the directory of a module, from the module cache or the proxy.
func module(t *testing.T, path, version string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", path+"@"+version)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module) != nil || err != nil {
		t.Skipf("%s %s is neither cached nor available from the proxy: %v %s", path, version, err, module.Error)
	}
	return module.Dir
}

// schema reads the schema of a release.
func schema(t *testing.T, release string) *typed.Parser {
	t.Helper()
	dir := module(t, "k8s.io/client-go", release)
	path := filepath.Join(dir, "applyconfigurations/internal/internal.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	var text string
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && len(literal.Value) > len(text) {
			text = literal.Value
		}
		return true
	})
	text, err = strconv.Unquote(text)
	require.NoError(t, err)
	p, err := typed.NewParser(typed.YAMLObject(text))
	require.NoError(t, err)
	return p
}

// typeName is the name of a built-in kind in the schemas, or "" for other kinds.
func typeName(o object) string {
	group, version := "core", o.GetAPIVersion()
	if g, v, ok := strings.Cut(version, "/"); ok {
		group, version = g, v
	}
	group = strings.TrimSuffix(group, ".k8s.io")
	if strings.Contains(group, ".") {
		return ""
	}
	return "io.k8s.api." + group + "." + version + "." + o.GetKind()
}

func everything(t *testing.T) (objects []object) {
	t.Helper()
	for directory, values := range variants(t) {
		objects = append(objects, kustomize(t, directory)...)
		objects = append(objects, helm(t, values)...)
	}
	for _, values := range valueFiles(t) {
		objects = append(objects, helm(t, values)...)
	}
	for overlay, values := range overlays(t) {
		objects = append(objects, kustomize(t, "overlays/"+overlay)...)
		objects = append(objects, helm(t, values)...)
	}
	return append(objects, kustomize(t, "test/testdata/kinds")...)
}

func TestEveryVersionKnowsEveryField(t *testing.T) {
	objects := everything(t)
	for version, release := range clients {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := schema(t, release)
			for _, o := range objects {
				if kind := typeName(o); kind != "" {
					_, err := p.Type(kind).FromUnstructured(o.Object)
					require.NoError(t, err, name(o))
				}
			}
			broken := object{Object: map[string]any{"spec": map[string]any{"replicaz": 1}}}
			_, err := p.Type("io.k8s.api.apps.v1.Deployment").FromUnstructured(broken.Object)
			require.Error(t, err, "the schema takes anything")
		})
	}
}

func TestCustomResourcesHaveKnownFields(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range everything(t) {
		if typeName(o) != "" {
			continue
		}
		var into any
		switch o.GetKind() {
		case monitoring.ServiceMonitorsKind:
			into = &monitoring.ServiceMonitor{}
		case monitoring.PodMonitorsKind:
			into = &monitoring.PodMonitor{}
		case monitoring.PrometheusRuleKind:
			into = &monitoring.PrometheusRule{}
		case "ScaledObject":
			into = &scaledObject{}
		default:
			t.Errorf("no check for the kind of %s", name(o))
			continue
		}
		seen[o.GetKind()] = true
		if scaled, ok := into.(*scaledObject); ok {
			scaled.check(t, o)
			continue
		}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true), name(o))
	}
	require.Len(t, seen, 4)
}
