package k8s

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// A server accepts all manifests unchanged and without warnings, in a namespace that
// enforces the restricted pod security standard.
func TestTheServerAcceptsEverything(t *testing.T) {
	c := startCluster(t)
	c.prepare(t, namespace, "restricted")
	runtimeClass := object{Object: map[string]any{ // of testdata/values/nats.yaml
		"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": map[string]any{"name": "nvidia"}, "handler": "nvidia",
	}}
	require.NoError(t, c.apply(t, runtimeClass, ""))
	t.Run("rejects invalid objects", c.testRejections)
	for overlay, values := range overlays(t) {
		rendered := map[string][]object{"Kustomize": kustomize(t, "overlays/"+overlay), "Helm": helm(t, values)}
		for by, objects := range rendered {
			t.Run(overlay+" by "+by, func(t *testing.T) { c.testApply(t, objects) })
		}
	}
	for directory, values := range variants(t) {
		t.Run(directory+" by Kustomize", func(t *testing.T) { c.testApply(t, kustomize(t, directory)) })
		t.Run(directory+" by Helm", func(t *testing.T) { c.testApply(t, helm(t, values)) })
	}
	for file, values := range valueFiles(t) {
		t.Run(file, func(t *testing.T) { c.testApply(t, helm(t, values)) })
	}
	t.Run("NATS", c.testNATSChart)
	t.Run("by kubectl", c.testKubectl)
	t.Run("by Helm", c.testHelmRelease)
	c.prepare(t, "kinds", "privileged") // whose workloads are not restricted
	t.Run("every kind of workload", func(t *testing.T) {
		objects := kustomize(t, "test/testdata/kinds")
		for _, o := range objects {
			o.SetNamespace("kinds")
		}
		c.testApply(t, objects)
	})
}

// testNATSChart renders the official chart of NATS, which is not a Go module, with the
// values of this repository. Its pods are restricted too, and have the labels and
// names that assay uses.
func (c *cluster) testNATSChart(t *testing.T) {
	chart := os.Getenv("NATS_CHART")
	if chart == "" {
		t.Skip("NATS_CHART does not name a directory or archive of the chart (helm pull nats --repo https://nats-io.github.io/k8s/helm/charts/)")
	}
	objects := release(t, "nats", chart, read(t, filepath.Join(root, "nats/values.yaml"))[0].Object)
	for _, o := range objects {
		o.SetNamespace(namespace) // which Helm adds where a chart does not
	}
	c.testApply(t, objects)
	labels := podOf(t, named(t, objects, "StatefulSet/nats")).Labels
	policy := named(t, kustomize(t, "overlays/fleet"), "NetworkPolicy/assay")
	require.Contains(t, fmt.Sprint(policy.Object["spec"]), "app.kubernetes.io/name:"+labels["app.kubernetes.io/name"])
	named(t, objects, "Service/nats")          // of --nats-url
	named(t, objects, "Service/nats-headless") // of the trigger of KEDA
}

// prepare creates a namespace like docs/kubernetes.md, and the service account that a
// controller would add.
func (c *cluster) prepare(t *testing.T, name, level string) {
	t.Helper()
	space := object{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{
			"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/warn": level,
		}},
	}}
	account := object{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default", "namespace": name},
	}}
	require.NoError(t, c.apply(t, space, ""))
	require.NoError(t, c.apply(t, account, ""))
}

// testRejections checks that invalid objects are rejected, so that the other tests can fail.
func (c *cluster) testRejections(t *testing.T) {
	for _, o := range kustomize(t, "overlays/fleet") {
		require.NoError(t, unstructured.SetNestedField(o.Object, "1", "spec", "replicaz"))
		require.Error(t, c.apply(t, o, metav1.DryRunAll), "%s has an unknown field", name(o))
	}
	deployment := named(t, kustomize(t, "overlays/standalone"), "Deployment/assay")
	pod := podOf(t, deployment)
	pod.Spec.Containers[0].SecurityContext = nil
	_, err := c.createPod(t, deployment, pod)
	require.True(t, apierrors.IsForbidden(err), "PodSecurity admits an unconfined container: %v", err)
	c.warned.take()
}

// testApply applies objects as a dry run, for real, twice and with a new image, and
// creates a pod from each template.
func (c *cluster) testApply(t *testing.T, objects []object) {
	t.Cleanup(func() { c.remove(t, objects) })
	for _, o := range objects {
		require.NoError(t, c.apply(t, o, metav1.DryRunAll), name(o))
	}
	for _, o := range objects {
		_, err := c.get(t, o)
		require.True(t, apierrors.IsNotFound(err), "%s: a dry run stores nothing: %v", name(o), err)
	}
	for _, o := range objects {
		require.NoError(t, c.apply(t, o, ""), name(o))
		have, err := c.get(t, o)
		require.NoError(t, err)
		requireKept(t, o, have)

		require.NoError(t, c.apply(t, o, ""), name(o))
		again, err := c.get(t, o)
		require.NoError(t, err)
		require.Equal(t, have.GetResourceVersion(), again.GetResourceVersion(), "%s changes when it is applied again", name(o))
	}
	for _, o := range objects {
		if pod := podOf(t, o); pod != nil {
			c.testPod(t, o, pod)
			c.testUpgrade(t, o)
		}
	}
	require.Empty(t, c.warned.take())
}

// testUpgrade applies a workload with a new image, after an autoscaler has scaled it.
func (c *cluster) testUpgrade(t *testing.T, o object) {
	t.Helper()
	text, err := yaml.Marshal(o.Object)
	require.NoError(t, err)
	text = regexp.MustCompile(`(\bimage: \S+):\S+`).ReplaceAll(text, []byte("$1:99.0.0"))
	next := parse(t, text)[0]
	require.NotEqual(t, o, next)

	_, fixed, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
	require.NoError(t, err)
	scaled := o.GetKind() == "Deployment" && !fixed
	if scaled { // as its autoscaler does
		scale := []byte(`{"spec":{"replicas":7}}`)
		_, err := c.resource(t, o).Patch(t.Context(), o.GetName(), "application/merge-patch+json", scale, metav1.PatchOptions{FieldManager: "autoscaler"}, "scale")
		require.NoError(t, err)
	}
	before, err := c.get(t, o)
	require.NoError(t, err)
	err = c.apply(t, next, "")
	if o.GetKind() == "Job" {
		require.ErrorContains(t, err, "field is immutable", "docs/kubernetes.md says to delete a Job first")
		return
	}
	require.NoError(t, err, name(o))
	after, err := c.get(t, o)
	require.NoError(t, err)
	requireKept(t, next, after)
	require.Equal(t, before.GetGeneration()+1, after.GetGeneration())
	if scaled {
		replicas, _, err := unstructured.NestedInt64(after.Object, "spec", "replicas")
		require.NoError(t, err)
		require.EqualValues(t, 7, replicas, "applying takes the number of replicas from the autoscaler")
	}
	require.NoError(t, c.apply(t, o, ""), "back")
}

// testPod creates the pod that a controller would create from a template.
func (c *cluster) testPod(t *testing.T, o object, template *corev1.PodTemplateSpec) {
	t.Helper()
	pod, err := c.createPod(t, o, template)
	require.NoError(t, err, name(o))
	if len(pod.Spec.InitContainers) > 0 {
		require.Equal(t, template.Spec.InitContainers[0].RestartPolicy, pod.Spec.InitContainers[0].RestartPolicy)
	}
	noToken := template.Spec.AutomountServiceAccountToken != nil && !*template.Spec.AutomountServiceAccountToken
	before := slices.Concat(template.Spec.InitContainers, template.Spec.Containers)
	for i, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if noToken || strings.HasPrefix(container.Image, image) {
			require.Equal(t, before[i].VolumeMounts, container.VolumeMounts, "%s: %s gets a token", name(o), container.Name)
		} else {
			require.Len(t, container.VolumeMounts, len(before[i].VolumeMounts)+1, "%s: %s loses its token", name(o), container.Name)
		}
	}
	require.NoError(t, c.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

func (c *cluster) createPod(t *testing.T, o object, template *corev1.PodTemplateSpec) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: *template.ObjectMeta.DeepCopy(),
		Spec:       *template.Spec.DeepCopy(),
	}
	pod.Namespace, pod.GenerateName = o.GetNamespace(), o.GetName()+"-"
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	claims, _, err := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
	require.NoError(t, err)
	for _, claim := range claims {
		volume := corev1.Volume{Name: claim.(map[string]any)["metadata"].(map[string]any)["name"].(string)}
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volume.Name}
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	require.NoError(t, err)
	made, err := c.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(pod.Namespace).Create(t.Context(), &object{Object: content}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return nil, err
	}
	stored := &corev1.Pod{}
	return stored, runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, stored)
}

// remove deletes objects; no finalizer may block it.
func (c *cluster) remove(t *testing.T, objects []object) {
	for _, o := range objects {
		background := metav1.DeletePropagationBackground
		err := c.resource(t, o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err, name(o))
		}
	}
}
