package k8s

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// requireKept compares stored objects with the applied ones: they have every field
// unchanged, and in addition only the defaults of testdata/defaults.yaml.
func requireKept(t *testing.T, want object, have *object) {
	t.Helper()
	text, err := os.ReadFile("testdata/defaults.yaml")
	require.NoError(t, err)
	var defaults map[string]map[string]any
	require.NoError(t, yaml.UnmarshalStrict(text, &defaults))
	known := maps.Clone(defaults["any"])
	maps.Copy(known, defaults[want.GetKind()])

	k := &kept{added: map[string][]any{}}
	k.compare("", want.Object, have.Object)
	require.Empty(t, k.lost, name(want))
	for path, values := range k.added {
		usual, listed := known[path]
		require.True(t, listed, "%s: the server adds %s: %v", name(want), path, values)
		for _, value := range values {
			if usual != nil { // null matches any value
				require.Equal(t, fmt.Sprint(usual), fmt.Sprint(value), "%s: %s", name(want), path)
			}
		}
	}
}

// kept lists the paths that an object lost, and the added values.
type kept struct {
	lost  []string
	added map[string][]any
}

// shorter maps the paths in all pods and containers to the same one.
var shorter = strings.NewReplacer(
	".spec.jobTemplate.spec.template.spec", "pod", ".spec.template.spec", "pod", ".initContainers", ".containers",
	".livenessProbe", ".probe", ".readinessProbe", ".probe", ".startupProbe", ".probe",
)

func (k *kept) compare(path string, want, have any) {
	switch want := want.(type) {
	case map[string]any:
		have, _ := have.(map[string]any)
		for key, value := range want {
			k.compare(path+"."+key, value, have[key])
		}
		for key, value := range have {
			if _, ours := want[key]; !ours {
				at := strings.TrimPrefix(shorter.Replace(path+"."+key), ".")
				k.added[at] = append(k.added[at], value)
			}
		}
	case []any:
		have, _ := have.([]any)
		if len(have) != len(want) {
			k.lost = append(k.lost, fmt.Sprintf("%s has %d entries instead of %d", path, len(have), len(want)))
			return
		}
		for i := range want {
			k.compare(path+"[]", want[i], have[i])
		}
	default:
		if fmt.Sprint(want) != fmt.Sprint(have) {
			k.lost = append(k.lost, fmt.Sprintf("%s is %v instead of %v", path, have, want))
		}
	}
}
