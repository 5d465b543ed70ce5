#!/bin/bash
# Builds kube-apiserver from Go modules, once, into the user's cache directory
# (ASSAY_CACHE names another), and prints where it is. KUBERNETES names another
# version than the newest whose code the Go proxy serves; GOFLAGS=-p=2 spares the
# other cores.
set -euo pipefail

version=${KUBERNETES:-v1.36.3}
cache=${ASSAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}
binary=$cache/kube-apiserver-$version
if ! command -v etcd > /dev/null; then
	echo "there is no etcd on the PATH, which kube-apiserver needs (Debian and Ubuntu: apt-get install etcd-server)" >&2
	exit 1
fi

if [[ -x $binary ]]; then
	echo "$binary"
	exit
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/kube-apiserver.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOWORK=off GOFLAGS="${GOFLAGS:-} -mod=mod" CGO_ENABLED=0

# Within its repository Kubernetes replaces its staging modules by directories; their
# published versions count from v0 where its own count from v1.
(cd / && go mod download "k8s.io/kubernetes@$version")
module=$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/$version.mod
{
	echo "module kube-apiserver"
	grep -E '^(go|godebug) ' "$module"
	echo "require k8s.io/kubernetes $version"
	sed -nE "s#^\t(k8s.io/[a-z-]+) => \./staging/.*#replace \1 => \1 v0.${version#v1.}#p" "$module"
} > go.mod

echo "building kube-apiserver $version; this takes minutes, once" >&2
number=${version#v}
stamp=k8s.io/component-base/version
nice -n 10 go build -trimpath -o kube-apiserver -ldflags "-s -w -X $stamp.gitVersion=$version \
-X $stamp.gitMajor=${number%%.*} -X $stamp.gitMinor=$(cut -d. -f2 <<< "$number")" k8s.io/kubernetes/cmd/kube-apiserver
mv kube-apiserver "$binary"
echo "$binary"
