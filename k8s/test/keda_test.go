package k8s

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// scaledObject has the fields of keda.sh/v1alpha1 that are used here.
type scaledObject struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		ScaleTargetRef  struct{ Name string } `json:"scaleTargetRef"`
		MinReplicaCount int32                 `json:"minReplicaCount"`
		MaxReplicaCount int32                 `json:"maxReplicaCount"`
		PollingInterval int32                 `json:"pollingInterval"`
		CooldownPeriod  int32                 `json:"cooldownPeriod"`
		Triggers        []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// check decodes o and compares it with the names of the stream and its consumer.
func (s *scaledObject) check(t *testing.T, o object) {
	t.Helper()
	text, err := json.Marshal(o.Object)
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(s))
	require.Equal(t, "keda.sh/v1alpha1", s.APIVersion)
	require.Equal(t, "assay", s.Spec.ScaleTargetRef.Name)
	require.Less(t, s.Spec.MinReplicaCount, s.Spec.MaxReplicaCount)
	require.Len(t, s.Spec.Triggers, 1)
	require.Equal(t, "nats-jetstream", s.Spec.Triggers[0].Type)
	names := constants(t, "../../queue/names.go")
	m := s.Spec.Triggers[0].Metadata
	require.Equal(t, names["StreamResponses"], m["stream"])
	require.Equal(t, names["ConsumerScorer"], m["consumer"])
	_, err = strconv.Atoi(m["lagThreshold"])
	require.NoError(t, err)
}

// KEDA queries the servers of k8s/nats/values.yaml for the account of assay.
func TestKEDAQueriesTheServers(t *testing.T) {
	for _, overlay := range []string{"keda", "fleet"} {
		var s scaledObject
		s.check(t, named(t, kustomize(t, "overlays/"+overlay), "ScaledObject/assay"))
		m := s.Spec.Triggers[0].Metadata
		require.Equal(t, "ASSAY", m["account"])
		require.Contains(t, natsAccounts(t), m["account"])
		require.Equal(t, "nats-headless."+namespace+".svc.cluster.local:8222", m["natsServerMonitoringEndpoint"])
	}
}

// constants are the text constants of a Go file.
func constants(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	values := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != len(spec.Names) {
			return true
		}
		for i, value := range spec.Values {
			if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				values[spec.Names[i].Name], err = strconv.Unquote(literal.Value)
				require.NoError(t, err)
			}
		}
		return true
	})
	return values
}
