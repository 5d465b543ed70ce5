package queuetest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// nowhere is the address that nodes advertise to others, which must use the configured
// proxies instead: nothing listens there.
const nowhere = "127.0.0.1:1"

// StartPartitionable is StartCluster with a proxy on each path from one node to another.
// A client that a test cuts off uses a Gate.
func StartPartitionable(t testing.TB, n int) *Cluster {
	t.Helper()
	return startCluster(t, n, true)
}

// proxied puts proxies between the nodes; the addresses of the nodes are known.
func (c *Cluster) proxied() {
	c.routes = make([][]*Proxy, len(c.nodes))
	for i, node := range c.nodes {
		node.cfg.Advertise, node.cfg.Routes = nowhere, nil
		c.routes[i] = make([]*Proxy, len(c.nodes))
		for j, other := range c.nodes {
			if i == j { // itself too: an empty node takes the number of routes for the size of the cluster
				node.cfg.Routes = append(node.cfg.Routes, (&url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", node.cfg.ClusterPort)}).String())
				continue
			}
			p := StartProxy(c.t, fmt.Sprintf("127.0.0.1:%d", other.cfg.ClusterPort))
			c.routes[i][j] = p
			node.cfg.Routes = append(node.cfg.Routes, (&url.URL{Scheme: "nats", Host: p.Addr()}).String())
		}
	}
}

// Isolate sets the network between a node and all others. Its clients still reach it.
func (c *Cluster) Isolate(i int, network Network) {
	c.t.Helper()
	for j := range c.nodes {
		if i != j {
			c.routes[i][j].Set(network)
			c.routes[j][i].Set(network)
		}
	}
}

// Gate is the network between one client and the nodes of a cluster.
type Gate struct{ proxies []*Proxy }

// Gate returns another network to the nodes of a partitionable cluster, which forwards.
func (c *Cluster) Gate() *Gate {
	c.t.Helper()
	g := &Gate{}
	for _, node := range c.nodes {
		g.proxies = append(g.proxies, StartProxy(c.t, fmt.Sprintf("127.0.0.1:%d", node.cfg.Port)))
	}
	return g
}

// URL returns the addresses of all nodes, through the gate.
func (g *Gate) URL() string {
	urls := make([]string, len(g.proxies))
	for i, p := range g.proxies {
		urls[i] = "nats://" + p.Addr()
	}
	return strings.Join(urls, ",")
}

// Connected reports whether the client has a connection to a node.
func (g *Gate) Connected(node int) bool { return g.proxies[node].connected() }

// Set sets the network to all nodes, or to some.
func (g *Gate) Set(network Network, nodes ...int) {
	if len(nodes) == 0 {
		for _, p := range g.proxies {
			p.Set(network)
		}
	}
	for _, i := range nodes {
		g.proxies[i].Set(network)
	}
}
