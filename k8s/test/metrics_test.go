package k8s

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// metricName also matches what a histogram adds to its name.
var metricName = regexp.MustCompile(`\b(assay|process)_[a-z_]+`)

// exported are the metrics that the code of assay registers, and those of the
// process collector that are used here.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{"process_resident_memory_bytes": true, "process_cpu_seconds_total": true}
	whole := regexp.MustCompile(`^assay_[a-z]+(_[a-z]+)+$`)
	for _, folder := range []string{"api", "queue", "rewardmodel", "sidecar"} {
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if text, err := strconv.Unquote(literal.Value); err == nil && whole.MatchString(text) {
						names[text] = true
					}
				}
				return true
			})
			return nil
		})
		require.NoError(t, err)
	}
	require.Greater(t, len(names), 20)
	return names
}

func requireExported(t *testing.T, where, expression string) {
	t.Helper()
	found := metricName.FindAllString(expression, -1)
	require.NotEmpty(t, found, "%s: %s", where, expression)
	names := exported(t)
	for _, metric := range found {
		base := metric
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		require.True(t, names[metric] || names[base], "%s: nothing exports %s", where, metric)
	}
}

func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "components/monitoring/dashboard.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Targets)
		for _, target := range panel.Targets {
			requireExported(t, panel.Title, target.Expr)
		}
	}
}

func TestAlertsWatchMetricsThatExist(t *testing.T) {
	rules := read(t, filepath.Join(root, "components/monitoring/rules.yaml"))[0]
	groups, _, err := unstructured.NestedSlice(rules.Object, "spec", "groups")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, group := range groups {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			rule := rule.(map[string]any)
			name := rule["alert"].(string)
			require.False(t, seen[name], "%s is there twice", name)
			seen[name] = true
			requireExported(t, name, rule["expr"].(string))
		}
	}
}
