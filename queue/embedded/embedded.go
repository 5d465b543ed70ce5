// Package embedded runs a NATS server with JetStream in this process: it locks the data directory, syncs what it
// acknowledges, erases labels whose files are damaged, and recovers from a full disk by closing the streams until there is
// space again. Package queue starts it when no external server is configured, and uses it over a connection like any other.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"assay/internal/durable"
	"assay/queue/internal/js"
)

const (
	// DefaultListen is where the embedded server listens.
	DefaultListen = "127.0.0.1:4222"

	// DefaultMaxPayload is the largest message of the embedded server, in bytes. NATS
	// advises against more than 8 MiB. A streamed response may be up to 16 KiB
	// smaller, which is left for the reason in its dead letter; a larger score request
	// can use HTTP.
	DefaultMaxPayload = 8 << 20

	// DefaultMaxStore limits what all streams of the embedded server may reserve on
	// disk. It is fixed, since a limit that depends on the free space can prevent the
	// recovery of existing streams.
	DefaultMaxStore = 64 << 30

	// RelaxedSync is the Config.SyncInterval of a server that trades durability
	// for speed. The default of nats-server is 2 minutes.
	RelaxedSync = 10 * time.Second

	startTimeout = 30 * time.Second
)

// ErrListen reports that the embedded server could not listen.
var ErrListen = errors.New("cannot listen")

// ConfigError reports that a field of Config is invalid, or cannot be used.
type ConfigError struct {
	Field string // such as "DataDir"
	Err   error
}

func (e *ConfigError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Config configures the server. Zero values mean the defaults; DataDir is required.
type Config struct {
	Listen     string // HOST:PORT; port 0 or -1 selects a free port
	DataDir    string // created if missing; the store is below it, in nats/
	Token      string // required from clients; "": none
	MaxPayload int    // bytes of one message, at most 64 MiB
	MaxStore   int64  // bytes on disk that the streams may reserve
	// SyncInterval 0 means an fsync before every acknowledgement, so that what is
	// acknowledged survives a power failure. Otherwise an acknowledgement comes before
	// the fsync, which follows within this time: a power failure loses what was
	// acknowledged since, and a killed process nothing.
	SyncInterval time.Duration
}

// Server is a NATS server with JetStream in this process. When its disk is full it stops
// the streams, and starts again when there is space.
type Server struct {
	lock   *durable.Lock
	cfg    Config
	damage *js.Damage
	log    zerolog.Logger

	running atomic.Pointer[server.Server]
	failed  atomic.Pointer[error] // why the streams cannot be written
	damaged atomic.Bool           // a label may be damaged, see checkLabels
	// interruptions counts what makes replies of the server doubtful: changes of failed, and
	// files that it could not read.
	interruptions atomic.Uint64
	stop          context.CancelFunc // of the disk monitor
	monitor       sync.WaitGroup
}

// Start starts a server and returns when clients can connect. Its error wraps
// ErrDataDirLocked if another process uses the directory, and ErrListen if the address is
// in use. damage reports the damaged labels that clients read, which the server then
// erases, and gets those that were erased; with nil it erases only what it finds when it
// starts.
func Start(cfg Config, damage *js.Damage, log zerolog.Logger) (*Server, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, &ConfigError{"DataDir", err}
	}
	lock, err := lockDataDir(cfg.DataDir)
	if err != nil {
		return nil, &ConfigError{"DataDir", err}
	}
	s := &Server{lock: lock, cfg: cfg, damage: damage, log: log.With().Str("component", "nats-server").Logger()}
	if err := s.start(opts); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	// After a recovery the server listens on the same port, even if port 0 selected it.
	s.cfg.Listen = s.running.Load().Addr().String()
	monitoring, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.monitor.Go(func() { s.monitorDisk(monitoring) })
	if damage != nil {
		damage.OnReport(s.checkLabels)
	}
	return s, nil
}

// start erases damaged labels and starts a server. After an error no server is running.
func (s *Server) start(opts *server.Options) error {
	s.eraseLabels()
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	slog := newServerLog(s.log, func() { s.interruptions.Add(1) })
	srv.SetLogger(slog, false, false)
	srv.Start()
	if err := s.ready(srv, slog.fatal); err != nil {
		shutdown(srv)
		return err
	}
	s.running.Store(srv)
	return nil
}

func shutdown(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

func (c Config) options() (*server.Options, error) {
	if c.DataDir == "" {
		return nil, &ConfigError{"DataDir", errors.New("it is empty: the embedded NATS server needs a directory for its streams")}
	}
	listen := cmp.Or(c.Listen, DefaultListen)
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, &ConfigError{"Listen", fmt.Errorf("%s: %w; set HOST:PORT, such as %s", listen, err, DefaultListen)}
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < -1 || port > 65535 {
		return nil, &ConfigError{"Listen", fmt.Errorf("%s: the port must be between 0 and 65535", listen)}
	}
	if port == 0 {
		port = server.RANDOM_PORT // 0 is the default port of the server
	}
	maxPayload := cmp.Or(c.MaxPayload, DefaultMaxPayload)
	if maxPayload < 64<<10 || maxPayload > 64<<20 {
		return nil, &ConfigError{"MaxPayload", fmt.Errorf("%d bytes: must be between 64 KiB and 64 MiB", maxPayload)}
	}
	return &server.Options{
		ServerName:             "assay",
		Host:                   host,
		Port:                   port,
		Authorization:          c.Token,
		NoSigs:                 true,
		JetStream:              true,
		DisableJetStreamBanner: true,
		StoreDir:               filepath.Join(c.DataDir, "nats"),
		JetStreamMaxMemory:     256 << 20,
		JetStreamMaxStore:      cmp.Or(c.MaxStore, DefaultMaxStore),
		SyncAlways:             c.SyncInterval == 0,
		SyncInterval:           c.SyncInterval,
		MaxPayload:             int32(maxPayload),
	}, nil
}

// ready returns nil if clients can connect. Start has returned, and reports errors only in
// its log.
func (s *Server) ready(srv *server.Server, fatal <-chan string) error {
	select {
	case reason := <-fatal:
		if strings.HasPrefix(reason, "Error listening") {
			return &ConfigError{"Listen", fmt.Errorf("%s: %w: %s; stop what uses the port, choose another one, or turn NATS off",
				cmp.Or(s.cfg.Listen, DefaultListen), ErrListen, reason)}
		}
		return fmt.Errorf("embedded NATS server: %s", reason)
	default:
	}
	if !srv.ReadyForConnections(startTimeout) {
		return fmt.Errorf("embedded NATS server: not ready after %v", startTimeout)
	}
	return nil
}

// URL returns the address for clients in other processes.
func (s *Server) URL() string { return s.running.Load().ClientURL() }

// InProcessConn connects to the server that is running now, without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.running.Load().InProcessConn() }

// Shutdown stops the server, waits until its files are closed, and unlocks the data
// directory.
func (s *Server) Shutdown() error {
	s.stop()
	s.monitor.Wait()
	shutdown(s.running.Load())
	return s.lock.Unlock()
}
