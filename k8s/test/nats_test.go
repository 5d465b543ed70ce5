package k8s

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// natsValues are the values for the official chart of NATS.
func natsValues(t *testing.T) map[string]any {
	t.Helper()
	return read(t, filepath.Join(root, "nats/values.yaml"))[0].Object
}

// natsAccounts are the accounts of the servers.
func natsAccounts(t *testing.T) map[string]any {
	t.Helper()
	accounts, found, err := unstructured.NestedMap(natsValues(t), "config", "merge", "accounts")
	require.NoError(t, err)
	require.True(t, found)
	return accounts
}

// natsPolicy is the network policy of the servers.
func natsPolicy(t *testing.T) networkingv1.NetworkPolicy {
	t.Helper()
	extra, _, err := unstructured.NestedSlice(natsValues(t), "extraResources")
	require.NoError(t, err)
	require.Len(t, extra, 1)
	var policy networkingv1.NetworkPolicy
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(extra[0].(map[string]any), &policy, true))
	require.Equal(t, "NetworkPolicy", policy.Kind)
	return policy
}

// admits reports whether the policy lets pods with these labels in a namespace connect
// to a port of the servers. The namespace "" is that of the servers.
func admits(t *testing.T, policy networkingv1.NetworkPolicy, namespace string, pod map[string]string, port int) bool {
	t.Helper()
	selects := func(selector *metav1.LabelSelector, set map[string]string) bool {
		s, err := metav1.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		return s.Matches(labels.Set(set))
	}
	for _, rule := range policy.Spec.Ingress {
		require.NotEmpty(t, rule.From, "any client is admitted")
		require.NotEmpty(t, rule.Ports, "any port is admitted")
		open := false
		for _, p := range rule.Ports {
			require.Equal(t, corev1.ProtocolTCP, *p.Protocol)
			open = open || p.Port.IntValue() == port
		}
		for _, from := range rule.From {
			require.Nil(t, from.IPBlock)
			matches := namespace == ""
			if from.NamespaceSelector != nil {
				matches = selects(from.NamespaceSelector, map[string]string{"kubernetes.io/metadata.name": namespace})
			}
			if open && matches && (from.PodSelector == nil || selects(from.PodSelector, pod)) {
				return true
			}
		}
	}
	return false
}

func TestNATSNetworkPolicy(t *testing.T) {
	policy := natsPolicy(t)
	servers := map[string]string{"app.kubernetes.io/name": "nats", "app.kubernetes.io/instance": "nats", "app.kubernetes.io/component": "nats"}
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	require.NoError(t, err)
	require.True(t, selector.Matches(labels.Set(servers)))
	require.ElementsMatch(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, policy.Spec.PolicyTypes)

	client := map[string]string{"assay-nats-client": "true"}
	other := map[string]string{"app.kubernetes.io/name": "other", "assay-client": "true"}
	for _, c := range []struct {
		what, namespace string
		pod             map[string]string
		ports           []int
	}{
		{"a client", "", client, []int{4222}},
		{"a client elsewhere", "default", client, nil},
		{"another pod", "", other, nil},
		{"another server", "", servers, []int{6222}},
		{"KEDA", "keda", other, []int{8222, 7777}},
		{"Prometheus", "monitoring", other, []int{8222, 7777}},
		{"another namespace", "default", other, nil},
	} {
		for _, port := range []int{4222, 6222, 7422, 7777, 8222} {
			require.Equal(t, slices.Contains(c.ports, port), admits(t, policy, c.namespace, c.pod, port), "%s to %d", c.what, port)
		}
	}
}

// The policy admits every pod that is configured with NATS.
func TestNATSNetworkPolicyAdmitsAssay(t *testing.T) {
	policy, pods := natsPolicy(t), 0
	for _, directory := range []string{"overlays/fleet", "overlays/standalone", "test/testdata/sidecar-nats"} {
		for _, o := range kustomize(t, directory) {
			pod := podOf(t, o)
			if pod == nil {
				continue
			}
			for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				if strings.Contains(strings.Join(c.Args, " "), "--nats-url=") {
					pods++
					require.True(t, admits(t, policy, "", pod.Labels, 4222), "%s of %s", name(o), directory)
				}
			}
		}
	}
	require.Equal(t, 4, pods)
}

// The official chart renders the accounts and the policy.
func TestNATSChart(t *testing.T) {
	chart := os.Getenv("NATS_CHART")
	if chart == "" {
		t.Skip("NATS_CHART does not name a directory or archive of the chart (helm pull nats --repo https://nats-io.github.io/k8s/helm/charts/)")
	}
	objects := release(t, "nats", chart, natsValues(t))
	named(t, objects, "NetworkPolicy/nats")
	config, _, err := unstructured.NestedString(named(t, objects, "ConfigMap/nats-config").Object, "data", "nats.conf")
	require.NoError(t, err)
	for account := range natsAccounts(t) {
		require.Contains(t, config, `"`+account+`": {`)
	}
	require.Contains(t, config, `"nkey": $ASSAY_NKEY`)
	policy := natsPolicy(t)
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	require.NoError(t, err)
	require.True(t, selector.Matches(labels.Set(podOf(t, named(t, objects, "StatefulSet/nats")).Labels)))
}
