// Package k8s has no code. Its tests render the manifests and the chart of this
// repository and check them. They are a separate module, so that assay does not
// depend on Kustomize and Helm.
package k8s
