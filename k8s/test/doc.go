// Package k8s holds no code: its tests render what stands in this repository
// for Kubernetes and check it. They are a module of their own, so that assay
// does not depend on Kustomize and Helm.
package k8s
