package k8s

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const uid = 65532

// podOf is the pod template of a workload, or nil.
func podOf(t *testing.T, o object) *corev1.PodTemplateSpec {
	t.Helper()
	path := []string{"spec", "template"}
	switch o.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job":
	case "CronJob":
		path = []string{"spec", "jobTemplate", "spec", "template"}
	default:
		return nil
	}
	template, found, err := unstructured.NestedMap(o.Object, path...)
	require.NoError(t, err)
	require.True(t, found, name(o))
	var pod corev1.PodTemplateSpec
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(template, &pod, true))
	return &pod
}

// eachPod calls check with every pod of every overlay and variant.
func eachPod(t *testing.T, check func(*testing.T, *corev1.PodTemplateSpec)) {
	t.Helper()
	directories := slices.AppendSeq([]string{"test/testdata/kinds"}, maps.Keys(variants(t)))
	for overlay := range overlays(t) {
		directories = append(directories, "overlays/"+overlay)
	}
	for _, directory := range directories {
		pods := 0
		for _, o := range kustomize(t, directory) {
			if pod := podOf(t, o); pod != nil {
				pods++
				t.Run(directory+"/"+name(o), func(t *testing.T) { check(t, pod) })
			}
		}
		require.NotZero(t, pods, directory)
	}
}

// assayContainer returns the container that serves or trains in a pod, and whether it
// is a sidecar.
func assayContainer(t *testing.T, pod *corev1.PodTemplateSpec) (c corev1.Container, sidecar bool) {
	t.Helper()
	is := func(c corev1.Container) bool { return c.Name == "assay" && strings.HasPrefix(c.Image, image) }
	if i := slices.IndexFunc(pod.Spec.InitContainers, is); i >= 0 {
		require.Zero(t, i, "another init container would start before it")
		return pod.Spec.InitContainers[i], true
	}
	i := slices.IndexFunc(pod.Spec.Containers, is)
	require.GreaterOrEqual(t, i, 0, "no container of assay")
	return pod.Spec.Containers[i], false
}

// flags are the arguments of a container, by name.
func flags(t *testing.T, c corev1.Container) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, arg := range c.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		require.True(t, strings.HasPrefix(name, "--"), arg)
		require.NotContains(t, values, name)
		values[name] = value
	}
	return values
}

func TestContainersAreConfined(t *testing.T) {
	eachPod(t, func(t *testing.T, pod *corev1.PodTemplateSpec) {
		c, sidecar := assayContainer(t, pod)
		s := c.SecurityContext
		require.NotNil(t, s)
		require.True(t, *s.RunAsNonRoot)
		require.EqualValues(t, uid, *s.RunAsUser)
		require.EqualValues(t, uid, *s.RunAsGroup)
		require.True(t, *s.ReadOnlyRootFilesystem)
		require.False(t, *s.AllowPrivilegeEscalation)
		require.Nil(t, s.Privileged)
		require.Equal(t, []corev1.Capability{"ALL"}, s.Capabilities.Drop)
		require.Empty(t, s.Capabilities.Add)
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, s.SeccompProfile.Type)
		require.False(t, pod.Spec.HostNetwork || pod.Spec.HostPID || pod.Spec.HostIPC)

		mounts := map[string]corev1.VolumeMount{}
		for _, m := range c.VolumeMounts {
			require.Empty(t, m.SubPath, "files mounted by subPath are never updated")
			mounts[m.MountPath] = m
		}
		empty := func(path string) {
			require.Contains(t, mounts, path)
			i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mounts[path].Name })
			require.NotNil(t, pod.Spec.Volumes[i].EmptyDir, path)
			require.NotNil(t, pod.Spec.Volumes[i].EmptyDir.SizeLimit, path)
		}
		if c.Args[0] != "proxy" { // it stores nothing
			empty(flags(t, c)["--data-dir"])
		}
		empty("/tmp")
		for _, flag := range []string{"--config", "--token-file", "--nats-nkey"} {
			if path := flags(t, c)[flag]; path != "" {
				directory := path[:strings.LastIndex(path, "/")]
				require.Contains(t, mounts, directory, flag)
				require.True(t, mounts[directory].ReadOnly, flag)
			}
		}
		if sidecar { // the workload may need its token, the sidecar does not
			empty("/var/run/secrets/kubernetes.io/serviceaccount")
		} else {
			require.False(t, *pod.Spec.AutomountServiceAccountToken)
			require.False(t, *pod.Spec.EnableServiceLinks)
		}
	})
}

func TestSidecarsServeOnlyThePod(t *testing.T) {
	eachPod(t, func(t *testing.T, pod *corev1.PodTemplateSpec) {
		c, sidecar := assayContainer(t, pod)
		if !sidecar {
			return
		}
		require.Equal(t, corev1.ContainerRestartPolicyAlways, *c.RestartPolicy)
		if c.Args[0] == "proxy" {
			require.Equal(t, ":8090", flags(t, c)["--listen"])
			require.Contains(t, c.Ports, corev1.ContainerPort{Name: "assay-proxy", ContainerPort: 8090})
			require.Contains(t, flags(t, c)["--upstream"], "//127.0.0.1:", "nobody reaches the server past the proxy")
			require.Contains(t, c.Args, "--guarded-only", "nobody generates text that is not scored")
		} else {
			require.Equal(t, "127.0.0.1:8080", flags(t, c)["--listen"])
			require.NotContains(t, flags(t, c), "--nats-listen", "its default is a loopback address")
			require.NotContains(t, flags(t, c), "--insecure", "health and metrics need no exemption")
			for _, port := range c.Ports {
				require.Equal(t, "assay-ops", port.Name, "nothing but health and metrics leaves the pod")
			}
		}
		require.NotNil(t, c.StartupProbe, "the containers would not wait for it")
		require.Equal(t, "/readyz", c.StartupProbe.HTTPGet.Path)
		require.Equal(t, "enabled", pod.Labels["assay-sidecar"])
	})
}

func TestProbesReachHealth(t *testing.T) {
	eachPod(t, func(t *testing.T, pod *corev1.PodTemplateSpec) {
		c, _ := assayContainer(t, pod)
		require.Equal(t, ":8081", flags(t, c)["--ops-listen"])
		require.Contains(t, c.Ports, corev1.ContainerPort{Name: "assay-ops", ContainerPort: 8081})
		for path, probe := range map[string]*corev1.Probe{"/readyz": c.ReadinessProbe, "/livez": c.LivenessProbe, "": c.StartupProbe} {
			require.NotNil(t, probe)
			require.Equal(t, "assay-ops", probe.HTTPGet.Port.StrVal)
			require.Contains(t, probe.HTTPGet.Path, path)
			require.GreaterOrEqual(t, probe.TimeoutSeconds, int32(2), "readiness takes up to a second")
		}
	})
}

// An outage of NATS does not make a pod unready that also serves HTTP: only pods that
// get all work over NATS wait for the streams.
func TestOnlyWorkersOfNATSWaitForTheStreams(t *testing.T) {
	eachPod(t, func(t *testing.T, pod *corev1.PodTemplateSpec) {
		c, _ := assayContainer(t, pod)
		want := "/readyz"
		if c.Args[0] == "trainer" {
			want = "/readyz?streams=1"
		}
		require.Equal(t, want, c.ReadinessProbe.HTTPGet.Path)
		require.NotContains(t, flags(t, c), "--trust-loopback", "nothing in the pod calls the service, or it has no tokens")
	})
}

// A pod is killed only after the shutdown timeout of assay. A sidecar has the time that
// the other containers leave.
func TestAssayGracePeriod(t *testing.T) {
	eachPod(t, func(t *testing.T, pod *corev1.PodTemplateSpec) {
		c, _ := assayContainer(t, pod)
		duration := func(flag, otherwise string) time.Duration {
			text, set := flags(t, c)[flag]
			if !set {
				text = otherwise
			}
			d, err := time.ParseDuration(text)
			require.NoError(t, err)
			return d
		}
		shutdown := duration("--shutdown-timeout", "30s")
		if pod.Spec.TerminationGracePeriodSeconds == nil {
			require.LessOrEqual(t, shutdown, 20*time.Second, "the default of Kubernetes is 30 s")
			return
		}
		grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
		require.GreaterOrEqual(t, grace, shutdown+10*time.Second)
		require.Less(t, duration("--drain-delay", "0s"), shutdown)
	})
}

func TestResourcesBoundAssay(t *testing.T) {
	eachPod(t, func(t *testing.T, pod *corev1.PodTemplateSpec) {
		c, sidecar := assayContainer(t, pod)
		for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			require.Contains(t, c.Resources.Requests, r)
			if r == corev1.ResourceEphemeralStorage && sidecar {
				require.NotContains(t, c.Resources.Limits, r, "the limit of a pod is the sum of those that are set: a workload without one is evicted at it")
				continue
			}
			require.Contains(t, c.Resources.Limits, r)
		}
		i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
		require.GreaterOrEqual(t, i, 0)
		from := c.Env[i].ValueFrom.ResourceFieldRef
		require.Equal(t, c.Name, from.ContainerName)
		require.Equal(t, "requests.memory", from.Resource)
		if limit := flags(t, c)["--request-memory"]; limit != "" { // of the service: TestRequestMemoryIsHalf
			requireHalf(t, limit, c.Resources.Requests.Memory())
		}
		if threads := flags(t, c)["--train-threads"]; threads != "" {
			require.Equal(t, c.Resources.Limits.Cpu().String(), threads)
		}
	})
}

// The Go heap can grow to twice the memory of requests; GOMEMLIMIT is the memory request.
func TestRequestMemoryIsHalf(t *testing.T) {
	objects := kustomize(t, "overlays/standalone")
	text, _, err := unstructured.NestedString(named(t, objects, "ConfigMap/assay").Object, "data", "assay.yaml")
	require.NoError(t, err)
	var settings map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &settings))
	c, _ := assayContainer(t, podOf(t, named(t, objects, "Deployment/assay")))
	requireHalf(t, settings["request-memory"].(string), c.Resources.Requests.Memory())
}

func requireHalf(t *testing.T, limit string, request *resource.Quantity) {
	t.Helper()
	half, err := resource.ParseQuantity(strings.TrimSuffix(limit, "B")) // 512MiB
	require.NoError(t, err)
	require.LessOrEqual(t, 2*half.Value(), request.Value())
}

// The component patches every kind of workload, keeps their fields, and ignores those
// without the label.
func TestSidecarPatchesEveryKind(t *testing.T) {
	plain := read(t, root+"/test/testdata/kinds/workloads.yaml")
	patched := kustomize(t, "test/testdata/kinds")
	require.Len(t, patched, len(plain))
	for _, o := range plain {
		before, after := podOf(t, o), podOf(t, named(t, patched, name(o)))
		_, sidecar := assayContainer(t, after)
		require.True(t, sidecar, name(o))
		require.Equal(t, before.Spec.Containers, after.Spec.Containers)
		require.Equal(t, before.Spec.InitContainers, after.Spec.InitContainers[1:])
		require.Subset(t, after.Spec.Volumes, before.Spec.Volumes)
		require.Equal(t, before.Spec.SecurityContext, after.Spec.SecurityContext)
		require.Subset(t, after.Labels, before.Labels)
	}
	others := read(t, root+"/test/testdata/others/workloads.yaml")
	require.Equal(t, others, kustomize(t, "test/testdata/others"))
}
