package k8s

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// cluster is a kube-apiserver with its own etcd, without controllers and nodes:
// objects stay as admission stored them.
type cluster struct {
	kubeconfig string
	client     dynamic.Interface
	mapper     meta.RESTMapper
	warned     *warnings
}

// warnings are those in the responses of the server.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() (text []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, w.text = w.text, nil
	return text
}

// startCluster runs until the test ends. It needs the program that
// KUBE_APISERVER names, and etcd.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	apiserver := os.Getenv("KUBE_APISERVER")
	if apiserver == "" {
		t.Skip("KUBE_APISERVER does not name a kube-apiserver: make test-k8s and k8s/test/kube-apiserver.sh build one")
	}
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("etcd is not on the PATH (Debian and Ubuntu: apt-get install etcd-server)")
	}
	dir := t.TempDir()
	key, token := filepath.Join(dir, "accounts.pem"), rand.Text()
	writeKey(t, key)
	tokens := filepath.Join(dir, "tokens.csv")
	require.NoError(t, os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600))

	store, peers, port := "http://"+freeAddress(t), "http://"+freeAddress(t), freeAddress(t)
	start(t, etcd, "--data-dir="+memory(t), "--listen-client-urls="+store, "--advertise-client-urls="+store,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers)
	_, number, _ := net.SplitHostPort(port)
	start(t, apiserver, "--etcd-servers="+store, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+number,
		"--cert-dir="+dir, "--token-auth-file="+tokens, "--authorization-mode=RBAC", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--service-cluster-ip-range=10.0.0.0/24")

	c := &cluster{kubeconfig: filepath.Join(dir, "kubeconfig"), warned: &warnings{}}
	authority := filepath.Join(dir, "apiserver.crt") // created by the server
	require.NoError(t, os.WriteFile(c.kubeconfig, fmt.Appendf(nil, kubeconfig, authority, port, token), 0o600))
	require.Eventually(t, func() bool { _, err := os.Stat(authority); return err == nil }, time.Minute, 50*time.Millisecond)
	config := &rest.Config{
		Host: "https://" + port, BearerToken: token, QPS: -1, WarningHandler: c.warned,
		TLSClientConfig: rest.TLSClientConfig{CAFile: authority},
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	c.client, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return found.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error() == nil
	}, 2*time.Minute, 100*time.Millisecond, "the server does not become ready")
	c.refresh(t, found)
	c.define(t, found)
	return c
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: admin}}]
clusters: [{name: test, cluster: {certificate-authority: %s, server: "https://%s"}}]
users: [{name: admin, user: {token: %s}}]
`

// refresh discovers the kinds of the server.
func (c *cluster) refresh(t *testing.T, found discovery.DiscoveryInterface) {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(found)
	require.NoError(t, err)
	c.mapper = restmapper.NewDiscoveryRESTMapper(groups)
}

// define adds the published custom resource definitions of KEDA and of the
// Prometheus operator.
func (c *cluster) define(t *testing.T, found discovery.DiscoveryInterface) {
	t.Helper()
	keda := filepath.Join(module(t, "github.com/kedacore/keda/v2", "v2.21.0"), "config/crd/bases/keda.sh_")
	prometheus := filepath.Join(module(t, "github.com/prometheus-operator/prometheus-operator", "v0.89.0"),
		"example/prometheus-operator-crd/monitoring.coreos.com_")
	for _, path := range []string{keda + "scaledobjects", prometheus + "servicemonitors", prometheus + "podmonitors", prometheus + "prometheusrules"} {
		require.NoError(t, c.apply(t, read(t, path+".yaml")[0], ""))
	}
	fleet := kustomize(t, "overlays/fleet")
	require.Eventually(t, func() bool {
		c.refresh(t, found)
		return !slices.ContainsFunc(fleet, func(o object) bool {
			_, err := c.mapper.RESTMapping(o.GroupVersionKind().GroupKind())
			return err != nil
		})
	}, time.Minute, 100*time.Millisecond, "the kinds of KEDA and Prometheus do not appear")
	c.warned.take() // about these definitions
}

// resource is the client for objects of this kind.
func (c *cluster) resource(t *testing.T, o object) dynamic.ResourceInterface {
	t.Helper()
	kind := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err, "the server does not know the kind of %s", name(o))
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.client.Resource(mapping.Resource)
	}
	require.NotEmpty(t, o.GetNamespace(), name(o))
	return c.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
}

// apply works like "kubectl apply --server-side", or with metav1.DryRunAll as a dry
// run.
func (c *cluster) apply(t *testing.T, o object, dryRun string) error {
	t.Helper()
	text, err := o.MarshalJSON()
	require.NoError(t, err)
	options := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict}
	if dryRun != "" {
		options.DryRun = []string{dryRun}
	}
	_, err = c.resource(t, o).Patch(t.Context(), o.GetName(), types.ApplyPatchType, text, options)
	return err
}

func (c *cluster) get(t *testing.T, o object) (*object, error) {
	t.Helper()
	return c.resource(t, o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
}

// start runs a program until the test ends, and shows its log if the test fails.
func start(t *testing.T, program string, args ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // killed
		log.Close()
		if text, err := os.ReadFile(path); t.Failed() && err == nil {
			t.Logf("%s:\n%s", filepath.Base(program), text[max(0, len(text)-4000):])
		}
	})
}

// memory is a directory for etcd, which syncs each write: in memory if there is enough
// space.
func memory(t *testing.T) string {
	t.Helper()
	var fs syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &fs) != nil || fs.Bavail*uint64(fs.Bsize) < 1<<30 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "etcd")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// freeAddress is an unused loopback address.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// writeKey generates the key that signs service account tokens.
func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
}
