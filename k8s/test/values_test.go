package k8s

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the table of values into the README of the chart")

// valueFiles are those of testdata/values: together they set every value.
func valueFiles(t *testing.T) map[string]map[string]any {
	t.Helper()
	paths, err := filepath.Glob("testdata/values/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	files := map[string]map[string]any{}
	for _, path := range paths {
		files[path] = readYAML(t, path)
	}
	return files
}

func readYAML(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.UnmarshalStrict(text, &values))
	return values
}

// property is a node of values.schema.json.
type property struct {
	Description          string
	Properties           map[string]property
	AdditionalProperties any
}

// value is one that a user can set: a leaf of the schema.
type value struct {
	path        []string
	description string
	standard    any
}

func (v value) String() string { return strings.Join(v.path, ".") }

// chartValues are all values of the chart, sorted. The schema and values.yaml
// have the same ones.
func chartValues(t *testing.T) (values []value) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "chart/values.schema.json"))
	require.NoError(t, err)
	var schema property
	require.NoError(t, json.Unmarshal(text, &schema))
	delete(schema.Properties, "global") // of Helm
	var walk func(path []string, p property, standard any)
	walk = func(path []string, p property, standard any) {
		if len(path) > 0 {
			require.NotEmpty(t, p.Description, "%v", path)
		}
		if len(p.Properties) == 0 {
			values = append(values, value{path, p.Description, standard})
			return
		}
		require.Equal(t, false, p.AdditionalProperties, "%v takes unknown values", path)
		defaults, _ := standard.(map[string]any)
		require.ElementsMatch(t, slices.Collect(maps.Keys(p.Properties)), slices.Collect(maps.Keys(defaults)), "%v", path)
		for _, key := range slices.Sorted(maps.Keys(p.Properties)) {
			walk(append(slices.Clone(path), key), p.Properties[key], defaults[key])
		}
	}
	walk(nil, schema, any(readYAML(t, filepath.Join(root, "chart/values.yaml"))))
	return values
}

// Each value has an effect: without it, what one of the files renders changes.
func TestEveryValueHasAnEffect(t *testing.T) {
	files := valueFiles(t)
	rendered := map[string]string{}
	render := func(values map[string]any) string {
		files, err := renderChart(t, "assay", filepath.Join(root, "chart"), values)
		if err != nil {
			return err.Error()
		}
		delete(files, "assay/templates/NOTES.txt")
		return fmt.Sprint(files)
	}
	for file, values := range files {
		rendered[file] = render(values)
	}
	for _, v := range chartValues(t) {
		effect := false
		for file, values := range files {
			if _, set, _ := unstructured.NestedFieldNoCopy(values, v.path...); set && !effect {
				without := runtime.DeepCopyJSON(values)
				unstructured.RemoveNestedField(without, v.path...)
				effect = render(without) != rendered[file]
			}
		}
		require.True(t, effect, "%v: no file of testdata/values sets it, or it has no effect", v)
	}
}

func TestInvalidValuesAreRejected(t *testing.T) {
	for text, message := range map[string]string{
		"servce: {enabled: false}":                                           "servce",
		"service: {nodeselector: {}}":                                        "nodeselector",
		"service: {autoscaling: {by: memory}}":                               "'cpu', 'lag', 'none'",
		"service: {autoscaling: {minReplicas: 0}}":                           "minReplicas",
		"service: {autoscaling: {minReplicas: 30}}":                          "minReplicas is greater than maxReplicas",
		"service: {replicas: 2}":                                             "service.replicas is set",
		"service: {tls: {clientCA: true}}":                                   "service.tls.clientCA needs service.tls.secretName",
		"service: {tls: {secretName: Assay}}":                                "secretName",
		"service: {drainDelaySeconds: 45}":                                   "drainDelaySeconds must be less",
		"service: {extraArgs: [precision=bf16]}":                             "extraArgs",
		"service: {extraEnv: {OMP_NUM_THREADS: 2}}":                          "extraEnv",
		"service: {podAnnotations: {example.com/port: 8081}}":                "podAnnotations",
		"service: {resources: {requests: {memory: lots}}}":                   "memory",
		"service: {resources: {requests: null}}":                             "requests",
		"image: {repository: registry.example.com/assay:1.0}":                "repository",
		"image: {pullPolicy: Sometimes}":                                     "pullPolicy",
		"model: {hub: {repository: judge}}":                                  "repository",
		"model: {hub: {repository: your-org/judge}, volume: {emptyDir: {}}}": "both set",
		"model: {path: judge}":                                               "model.path is set without model.volume",
		"model: {path: ../judge, volume: {emptyDir: {}}}":                    "path",
		"nats: {url: nats:4222}":                                             "url",
		"{nats: {enabled: false}, trainer: {enabled: true}}":                 "trainer.enabled needs nats.enabled",
		"{nats: {enabled: false}, sidecar: {nats: true}}":                    "sidecar.nats needs nats.enabled",
		"{nats: {enabled: false}, service: {autoscaling: {by: lag}}}":        "lag needs nats.enabled",
		"networkPolicy: {dns: {ports: [domain]}}":                            "ports",
		"sidecar: {workloads: [{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {template: {spec: {}}}}]}": "'Deployment', 'StatefulSet'",
		"sidecar: {requestMemory: half}":                "requestMemory",
		"sidecar: {nats: true, proxy: {enabled: true}}": "sidecar.proxy and sidecar.nats are mutually exclusive",
		"sidecar: {proxy: {mode: delete}}":              "mode",
		"sidecar: {proxy: {guardedOnly: 1}}":            "guardedOnly",
		"config: {--log-level: debug}":                  "--log-level",
	} {
		var values map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &values), text)
		_, err := renderChart(t, "assay", filepath.Join(root, "chart"), values)
		require.ErrorContains(t, err, message, text)
	}
}

func TestTheProxyForwardsOtherEndpointsOnRequest(t *testing.T) {
	for guardedOnly, count := range map[bool]int{true: 1, false: 0} {
		values := overlays(t)["sidecar-proxy"]
		values["sidecar"].(map[string]any)["proxy"].(map[string]any)["guardedOnly"] = guardedOnly
		found := 0
		for _, o := range helm(t, values) {
			if pod := podOf(t, o); pod != nil {
				c, _ := assayContainer(t, pod)
				if _, set := flags(t, c)["--guarded-only"]; set {
					found++
				}
			}
		}
		require.Equal(t, count, found)
	}
}

// With a certificate, all that reads the service uses TLS; the other pods have none.
func TestTLS(t *testing.T) {
	values := valueFiles(t)["testdata/values/nats.yaml"]
	delete(values, "image") // by which assayContainer recognizes assay
	for _, o := range helm(t, values) {
		if o.GetKind() == "ServiceMonitor" {
			endpoints, _, err := unstructured.NestedSlice(o.Object, "spec", "endpoints")
			require.NoError(t, err)
			require.Equal(t, "https", endpoints[0].(map[string]any)["scheme"])
		}
		pod := podOf(t, o)
		if pod == nil {
			continue
		}
		c, _ := assayContainer(t, pod)
		scheme := corev1.URIScheme("")
		if name(o) == "Deployment/assay" {
			scheme = corev1.URISchemeHTTPS
			for flag, file := range map[string]string{"--tls-cert": "tls.crt", "--tls-key": "tls.key", "--tls-client-ca": "ca.crt"} {
				require.Equal(t, "/etc/assay/tls/"+file, flags(t, c)[flag])
			}
			require.Contains(t, fmt.Sprint(pod.Spec.Volumes), "assay-tls")
		}
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			require.Equal(t, scheme, probe.HTTPGet.Scheme, name(o))
		}
	}
}

// The pods of the values that overlays do not have are confined as well.
func TestPodsOfAllValues(t *testing.T) {
	for file, values := range valueFiles(t) {
		for _, o := range helm(t, values) {
			pod := podOf(t, o)
			if pod == nil {
				continue
			}
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				if !strings.HasPrefix(c.Name, "assay") {
					continue
				}
				s := c.SecurityContext
				require.NotNil(t, s, "%s: %s of %s", file, c.Name, name(o))
				require.True(t, *s.RunAsNonRoot && *s.ReadOnlyRootFilesystem && !*s.AllowPrivilegeEscalation)
				require.Equal(t, []corev1.Capability{"ALL"}, s.Capabilities.Drop)
				require.Contains(t, c.Resources.Limits, corev1.ResourceMemory)
			}
		}
	}
}

func TestTheModelIsPulledBeforeAssayStarts(t *testing.T) {
	objects := helm(t, valueFiles(t)["testdata/values/hub.yaml"])
	for _, workload := range []string{"Deployment/assay", "Deployment/inference"} {
		pod := podOf(t, named(t, objects, workload))
		containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
		require.Equal(t, "assay-pull", containers[0].Name)
		require.Equal(t, []string{"pull", "your-org/judge@v2", "--out=/models/judge"}, containers[0].Args)
		require.Nil(t, containers[0].RestartPolicy)
		require.Equal(t, "assay", containers[1].Name)
		for _, c := range containers[:2] { // see TestResourcesBoundAssay
			_, limited := c.Resources.Limits[corev1.ResourceEphemeralStorage]
			require.Equal(t, workload == "Deployment/assay", limited, c.Name)
		}
		require.Contains(t, containers[1].Env, corev1.EnvVar{Name: "ASSAY_MODEL", Value: "/models/judge"})
		i := slices.IndexFunc(containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "HF_TOKEN" })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, "hub", containers[0].Env[i].ValueFrom.SecretKeyRef.Name)
		require.False(t, slices.ContainsFunc(containers[1].Env, func(e corev1.EnvVar) bool { return e.Name == "HF_TOKEN" }), "only the pull needs the token")
	}
}

// DNS works with kube-system, openshift-dns and node-local caches, and nothing else
// is reachable outside of the cluster.
func TestEgressToDNS(t *testing.T) {
	for directory, outside := range map[string][]int{
		"overlays/standalone": {53, 5353}, "overlays/http-only": {53, 5353}, "test/testdata/model-hub": {53, 5353, 443},
	} {
		var policy networkingv1.NetworkPolicy
		o := named(t, kustomize(t, directory), "NetworkPolicy/assay")
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &policy, true))
		var open []int
		for _, rule := range policy.Spec.Egress {
			for _, port := range rule.Ports {
				if len(rule.To) == 0 && *port.Protocol == corev1.ProtocolTCP {
					open = append(open, port.Port.IntValue())
				}
			}
		}
		require.Equal(t, outside, open, directory)
	}
}

// Another chart adds the sidecar to its own workload, as the README shows.
func TestAnotherChartAddsTheSidecar(t *testing.T) {
	dir := t.TempDir()
	ours, err := filepath.Abs(filepath.Join(root, "chart"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "charts"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "templates"), 0o700))
	require.NoError(t, os.Symlink(ours, filepath.Join(dir, "charts/assay")))
	readme, err := os.ReadFile(filepath.Join(ours, "README.md"))
	require.NoError(t, err)
	_, template, found := strings.Cut(string(readme), "{{- $workload")
	require.True(t, found)
	template, _, _ = strings.Cut("{{- $workload"+template, "```")
	for file, text := range map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: my, version: 0.1.0, dependencies: [{name: assay, version: 0.1.0}]}",
		"values.yaml": "assay: {service: {enabled: false}}",
		"templates/_workload.tpl": `{{ define "my.deployment" }}{apiVersion: apps/v1, kind: Deployment, metadata: {name: my},
			spec: {selector: {matchLabels: {app: my}}, template: {metadata: {labels: {app: my}}, spec: {containers: [{name: my, image: my}]}}}}{{ end }}`,
		"templates/workload.yaml": template,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	objects := release(t, "my", dir, nil)
	require.Len(t, objects, 1)
	pod := podOf(t, objects[0])
	require.Equal(t, "assay", pod.Spec.InitContainers[0].Name)
	require.Equal(t, "enabled", pod.Labels["assay-sidecar"])
}

func TestNotesNameWhatIsMissing(t *testing.T) {
	notes := func(values map[string]any) string {
		files, err := renderChart(t, "assay", filepath.Join(root, "chart"), values)
		require.NoError(t, err)
		return files["assay/templates/NOTES.txt"]
	}
	require.Contains(t, notes(nil), "WARNING: image.repository is the placeholder")
	require.Contains(t, notes(nil), "the Secrets assay-tokens, assay-nats exist.")
	mine := notes(map[string]any{"image": map[string]any{"repository": "registry.acme.test/assay"}, "nats": map[string]any{"enabled": false}})
	require.NotContains(t, mine, "WARNING")
	require.Contains(t, mine, "the Secret assay-tokens exists.")
}

// The YAML of docs/kubernetes.md renders as a user would use it: values with the
// chart, a kustomization as an overlay.
func TestDocumentedYAMLRenders(t *testing.T) {
	text, err := os.ReadFile("../../docs/kubernetes.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1)
	rendered := map[string]int{}
	for _, block := range blocks {
		indent, content := block[1], block[2]
		content = strings.ReplaceAll("\n"+content, "\n"+indent, "\n")[1:]
		what, _, _ := strings.Cut(content, "\n")
		rendered[what]++
		switch what {
		case "# values.yaml":
			var values map[string]any
			require.NoError(t, yaml.UnmarshalStrict([]byte(content), &values))
			require.NotEmpty(t, helm(t, values))
		case "# kustomization.yaml":
			directory, err := os.MkdirTemp(filepath.Join(root, "overlays"), "documented")
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(directory) })
			workload, err := os.ReadFile(filepath.Join(root, "overlays/sidecar-trainer/workload.yaml"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(directory, "job.yaml"), workload, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(content), 0o600))
			objects := kustomize(t, "overlays/"+filepath.Base(directory))
			pods := 0
			for _, o := range objects {
				if pod := podOf(t, o); pod != nil {
					assayContainer(t, pod)
					pods++
				}
			}
			require.Equal(t, 1, pods)
		default:
			t.Errorf("%q: name the file in the first line", what)
		}
	}
	require.Equal(t, map[string]int{"# values.yaml": 3, "# kustomization.yaml": 3}, rendered)
}

// The README has a row for each value, made of the schema and values.yaml: run
// go test -run README -update after a change.
func TestREADMEListsEveryValue(t *testing.T) {
	const begin, end = "<!-- values: begin -->\n", "<!-- values: end -->\n"
	path := filepath.Join(root, "chart/README.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	var table strings.Builder
	table.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, v := range chartValues(t) {
		standard, err := json.Marshal(v.standard)
		require.NoError(t, err)
		fmt.Fprintf(&table, "| `%v` | `%s` | %s |\n", v, standard, strings.ReplaceAll(v.description, "|", `\|`))
	}
	want := before + begin + table.String() + end + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
	}
	require.Equal(t, want, string(text), "go test -run README -update writes the table")
}
