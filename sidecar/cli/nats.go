package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/queue"
)

// NATSFlags specify an external NATS server and the credentials for it.
type NATSFlags struct {
	NatsURL    string `name:"nats-url" placeholder:"URL" help:"External NATS server or cluster, for example nats://HOST:4222."`
	NatsCreds  string `placeholder:"FILE" help:"Credentials file for --nats-url."`
	NatsNkey   string `name:"nats-nkey" placeholder:"FILE" help:"NKey seed file for --nats-url."`
	NatsToken  string `placeholder:"TOKEN" help:"Token of the NATS server; the embedded server then requires it from its clients."`
	NatsCA     string `name:"nats-ca" placeholder:"FILE" help:"PEM file of the CA certificates that verify the NATS server."`
	NatsCert   string `placeholder:"FILE" help:"PEM file of the client certificate for --nats-url."`
	NatsKey    string `placeholder:"FILE" help:"PEM file of the private key for --nats-cert."`
	NatsDomain string `name:"nats-jetstream-domain" placeholder:"NAME" help:"JetStream domain of the streams; needed when --nats-url is a leaf node with its own JetStream."`
}

// Config is the connection that the flags describe.
func (f NATSFlags) Config() queue.ConnConfig {
	return queue.ConnConfig{
		URL: f.NatsURL, Creds: f.NatsCreds, NKey: f.NatsNkey, Token: f.NatsToken,
		CA: f.NatsCA, Cert: f.NatsCert, Key: f.NatsKey, Domain: f.NatsDomain,
	}
}

// PrivateConfig is Config with the token of a private service on this machine,
// unless other credentials are given. The token changes with each restart of the
// service and is read again for each connection.
func (f NATSFlags) PrivateConfig(dataDir string) queue.ConnConfig {
	cfg := f.Config()
	others := f.NatsToken != "" || f.NatsCreds != "" || f.NatsNkey != "" || f.NatsCert != ""
	if f.NatsURL == "" || others || !mayReceivePrivateToken(strings.Split(f.NatsURL, ",")...) {
		return cfg
	}
	cfg.ReadToken = func() string { return readPrivateToken(dataDir) }
	return cfg
}

// ConnectTimeout is how long a command waits for the server. A service waits without a limit.
const ConnectTimeout = 10 * time.Second

// Connect connects a command to a NATS server within ConnectTimeout. Only warnings and errors are logged.
func Connect(a *App, cfg queue.ConnConfig) (*nats.Conn, error) {
	ctx, cancel := context.WithTimeout(a.Context, ConnectTimeout)
	defer cancel()
	nc, err := queue.Connect(ctx, cfg, a.Log.Level(max(a.Log.GetLevel(), zerolog.WarnLevel)))
	return nc, NameNATSFlags(err)
}

// NameNATSFlags replaces the setting that an error of package queue names with its flag.
func NameNATSFlags(err error) error {
	var setting *queue.SettingError
	if !errors.As(err, &setting) {
		return err
	}
	flag, ok := map[string]string{
		"URL": "--nats-url", "NKey": "--nats-nkey", "Cert": "--nats-cert and --nats-key",
		"Listen": "--nats-listen", "DataDir": "--data-dir", "MaxPayload": "--nats-max-payload",
	}[setting.Field]
	if !ok {
		return err
	}
	return fmt.Errorf("%s: %w", flag, setting.Err)
}
