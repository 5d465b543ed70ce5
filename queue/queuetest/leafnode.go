package queuetest

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// HubDomain is the JetStream domain of a cluster.
const HubDomain = "hub"

// Leaf is a NATS server that is connected to a cluster as a leaf node, in a separate
// process.
type Leaf struct {
	t    testing.TB
	node *node
}

// StartLeaf starts a leaf node of the cluster. Without a domain, it has no JetStream; it is
// connected to the hub within seconds. It ends with the test.
func (c *Cluster) StartLeaf(t testing.TB, domain string) *Leaf {
	t.Helper()
	var hub []string
	for _, node := range c.nodes {
		hub = append(hub, fmt.Sprintf("nats://127.0.0.1:%d", node.cfg.LeafPort))
	}
	var err error
	for range startAttempts {
		var ports []int
		ports, err = freePorts(1)
		require.NoError(t, err)
		leaf := &Leaf{t: t, node: &node{cfg: nodeConfig{Name: "leaf", Port: ports[0], Domain: domain, Hub: hub,
			Dir: filepath.Join(t.TempDir(), "leaf")}}}
		if err = leaf.node.start(); err == nil {
			t.Cleanup(func() { require.NoError(t, leaf.node.kill()) })
			return leaf
		}
	}
	require.NoError(t, err)
	return nil
}

// URL returns the address for clients of the leaf.
func (l *Leaf) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", l.node.cfg.Port) }

// leafOptions are those of a leaf node.
func (c nodeConfig) leafOptions() (*server.Options, error) {
	remote := &server.RemoteLeafOpts{}
	for _, hub := range c.Hub {
		u, err := url.Parse(hub)
		if err != nil {
			return nil, err
		}
		remote.URLs = append(remote.URLs, u)
	}
	opts := c.options()
	opts.Cluster, opts.Routes = server.ClusterOpts{}, nil
	opts.JetStream = c.Domain != ""
	opts.LeafNode = server.LeafNodeOpts{ReconnectInterval: time.Second, Remotes: []*server.RemoteLeafOpts{remote}}
	return opts, nil
}
