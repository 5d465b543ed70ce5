package queuetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/queue/queuetest/clockskew"
)

// nodeEnv makes a test binary a node of a cluster: the JSON of nodeConfig.
const nodeEnv = "ASSAY_QUEUETEST_NODE"

// electionTimeout bounds the election of leaders on a busy machine.
const electionTimeout = 2 * time.Minute

// startAttempts is how often a cluster is started, since another process may
// take a port that was found free.
const startAttempts = 3

// nodePing is the interval of pings to clients and to the other nodes.
const nodePing = 2 * time.Second

type nodeConfig struct {
	Name        string
	Port        int // for clients
	ClusterPort int // for the other nodes
	Routes      []string
	Advertise   string // to other nodes; "": where it listens
	Dir         string
	LeafPort    int      // for leaf nodes
	Domain      string   // of JetStream
	Hub         []string // the cluster that this is a leaf node of; empty: it is a node of one
}

// Main is the TestMain of a package that starts clusters: the nodes run its
// test binary.
func Main(m *testing.M) {
	if Node() {
		return
	}
	goleak.VerifyTestMain(m)
}

// Node runs a node of a cluster if this process was started as one, until its parent
// exits, and reports whether it was; TestMain then returns.
func Node() bool {
	text := os.Getenv(nodeEnv)
	if text == "" {
		return false
	}
	if err := runNode(text); err != nil {
		fmt.Fprintln(os.Stderr, "NATS node:", err)
	}
	return true
}

func runNode(text string) error {
	var cfg nodeConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	opts := cfg.options()
	if len(cfg.Hub) > 0 {
		leaf, err := cfg.leafOptions()
		if err != nil {
			return err
		}
		opts = leaf
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(electionTimeout) {
		return errors.New("not ready for connections")
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin) // ends when the parent does
	srv.Shutdown()
	srv.WaitForShutdown()
	return err
}

// options are those of a node of a cluster.
func (c nodeConfig) options() *server.Options {
	return &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: c.Dir, JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 64 << 30, JetStreamDomain: c.Domain, MaxPayload: 8 << 20,
		// So that a network that drops packets is noticed within seconds.
		PingInterval: nodePing, MaxPingsOut: 2,
		Cluster: server.ClusterOpts{Name: "assay", Host: "127.0.0.1", Port: c.ClusterPort,
			Advertise: c.Advertise, NoAdvertise: c.Advertise != ""},
		LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: c.LeafPort},
		Routes:   server.RoutesFromStr(strings.Join(c.Routes, ",")),
	}
}

// Cluster is a cluster of NATS servers with JetStream on loopback. Each is a separate
// process, whose data survives its death.
type Cluster struct {
	t      testing.TB
	nodes  []*node
	routes [][]*Proxy // from, to; nil unless it is partitionable
}

type node struct {
	cfg nodeConfig
	cmd *exec.Cmd // nil while it does not run
	in  io.Closer
}

// StartCluster starts n nodes and returns when they have a leader and can store n copies
// of a stream. They end with the test. The TestMain of the package
// must be Main, or call Node first.
func StartCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	return startCluster(t, n, false)
}

func startCluster(t testing.TB, n int, partitionable bool) *Cluster {
	t.Helper()
	var err error
	for range startAttempts {
		c := &Cluster{t: t}
		if err = c.start(n, partitionable); err == nil {
			t.Cleanup(c.stop)
			c.waitFor("copies on every node", func(ctx context.Context, js jetstream.JetStream) error {
				_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "PROBE", Replicas: n})
				return errors.Join(err, js.DeleteStream(ctx, "PROBE"))
			})
			return c
		}
		c.stop()
	}
	require.NoError(t, err)
	return nil
}

func (c *Cluster) start(n int, partitionable bool) error {
	ports, err := freePorts(3 * n)
	if err != nil {
		return err
	}
	routes := make([]string, n)
	for i := range routes {
		routes[i] = (&url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[n+i])}).String()
	}
	dir := c.t.TempDir()
	for i := range n {
		name := fmt.Sprintf("node-%d", i)
		c.nodes = append(c.nodes, &node{cfg: nodeConfig{Name: name, Port: ports[i], ClusterPort: ports[n+i], LeafPort: ports[2*n+i], Domain: HubDomain,
			Routes: routes, Dir: filepath.Join(dir, name)}})
	}
	if partitionable {
		c.proxied()
	}
	for _, node := range c.nodes {
		if err := node.start(); err != nil {
			return err
		}
	}
	return nil
}

// freePorts returns ports that are not in use.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for a moment
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func (n *node) start() error {
	text, err := json.Marshal(n.cfg)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$") //nolint:noctx // it ends with Kill, or with us
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.in = cmd, in
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("%s did not start (it said %q): %w; does TestMain call queuetest.Main?",
			n.cfg.Name, line, errors.Join(err, n.kill()))
	}
	return nil
}

// kill kills the process and waits until it has exited.
func (n *node) kill() error {
	if n.cmd == nil {
		return nil
	}
	err := n.cmd.Process.Kill()
	n.in.Close()
	var killed *exec.ExitError
	if waited := n.cmd.Wait(); !errors.As(waited, &killed) {
		err = errors.Join(err, waited)
	}
	n.cmd = nil
	return err
}

func (c *Cluster) stop() {
	for _, node := range c.nodes {
		if err := node.kill(); err != nil {
			c.t.Error(err)
		}
	}
}

// Kill kills a node with SIGKILL and waits until it has exited; the others may not
// have noticed yet.
func (c *Cluster) Kill(i int) {
	c.t.Helper()
	require.NotNil(c.t, c.nodes[i].cmd, "node %d is dead", i)
	require.NoError(c.t, c.nodes[i].kill())
}

// Lose is Kill, and removes all data of the node, so that Restart starts it empty.
func (c *Cluster) Lose(i int) {
	c.t.Helper()
	c.Kill(i)
	require.NoError(c.t, os.RemoveAll(c.nodes[i].cfg.Dir))
}

// Signal sends a signal to a node, such as SIGSTOP.
func (c *Cluster) Signal(i int, signal os.Signal) {
	c.t.Helper()
	require.NotNil(c.t, c.nodes[i].cmd, "node %d is dead", i)
	require.NoError(c.t, c.nodes[i].cmd.Process.Signal(signal))
}

// SetClock makes the wall clock of a node differ from that of the machine, in whole seconds, until
// the node ends. It skips the test where that is not possible.
func (c *Cluster) SetClock(i int, offset time.Duration) {
	c.t.Helper()
	require.NotNil(c.t, c.nodes[i].cmd, "node %d is dead", i)
	err := clockskew.Set(c.nodes[i].cmd.Process.Pid, offset)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrPermission) {
		c.t.Skip(err)
	}
	require.NoError(c.t, err)
}

// Start starts a node that was killed, with its data and its addresses, and returns
// when it accepts clients.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	require.Nil(c.t, c.nodes[i].cmd, "node %d is alive", i)
	require.NoError(c.t, c.nodes[i].start())
}

// Restart is Start, and returns when the cluster has a leader.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.Start(i)
	c.waitFor("a leader", func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.AccountInfo(ctx)
		return err
	})
}

// URL returns the addresses of all nodes, running or not, separated by commas.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		urls[i] = fmt.Sprintf("nats://127.0.0.1:%d", node.cfg.Port)
	}
	return strings.Join(urls, ",")
}

// Leader returns which node leads a stream, and waits until one does. The
// stream of a key-value bucket is KV_<bucket>, that of an object store
// OBJ_<bucket>.
func (c *Cluster) Leader(stream string) (leader int) {
	c.t.Helper()
	c.waitFor("a leader of "+stream, func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		for i, node := range c.nodes {
			if node.cmd != nil && s.CachedInfo().Cluster.Leader == node.cfg.Name {
				leader = i
				return nil
			}
		}
		return errors.New("none that lives")
	})
	return leader
}

// Healthy waits until every replica of a stream is up to date.
func (c *Cluster) Healthy(stream string) {
	c.t.Helper()
	c.waitFor("all copies of "+stream, func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		info := s.CachedInfo()
		if info.Cluster.Leader == "" || len(info.Cluster.Replicas) != info.Config.Replicas-1 {
			return errors.New("copies are missing")
		}
		for _, peer := range info.Cluster.Replicas {
			if !peer.Current || peer.Offline {
				return fmt.Errorf("%s is behind", peer.Name)
			}
		}
		return nil
	})
}

// waitFor waits until op succeeds.
func (c *Cluster) waitFor(what string, op func(context.Context, jetstream.JetStream) error) {
	c.t.Helper()
	nc, err := nats.Connect(c.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	require.NoError(c.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(c.t, err)
	var last error
	ok := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		last = op(ctx, js)
		return last == nil
	}
	for start := time.Now(); !ok(); {
		require.Less(c.t, time.Since(start), electionTimeout, "waiting for %s: %v", what, last)
		<-time.After(50 * time.Millisecond)
	}
}
