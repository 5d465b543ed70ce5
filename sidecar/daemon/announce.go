package daemon

import (
	"fmt"
	"path/filepath"
	"strings"

	"assay/sidecar/cli"
	"assay/sidecar/serve"
)

// announcement prints that a service is ready and how to try it.
type announcement struct {
	flags   *Serve
	app     *cli.App
	service *serve.Service
}

func (s announcement) write() error {
	version, precision, device := s.service.Model()
	natsURL := s.service.NATSURL()
	s.app.Log.Info().Str("http", s.service.URL()).Str("grpc", s.service.GRPCAddress()).Str("nats", natsURL).Str("model", version).
		Str("precision", string(precision)).Str("device", device).Msg("ready")
	if s.app.JSONLogs {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nassay is ready.\n  model  %s (%s on %s)\n  HTTP   %s\n", version,
		precision, device, s.service.URL())
	if s.service.GRPCAddress() != "" {
		fmt.Fprintf(&b, "  gRPC   %s\n", s.service.GRPCAddress())
	}
	if natsURL != "" {
		fmt.Fprintf(&b, "  NATS   %s\n", natsURL)
	}
	fmt.Fprintf(&b, "\nTry it in a browser:\n\n  %s/\n\nover HTTP:\n\n  %s\n", s.service.URL(), s.curl())
	if natsURL != "" {
		fmt.Fprintf(&b, "\nor over NATS:\n\n  %s\n", s.scoreCommand(natsURL))
	}
	b.WriteString("\n")
	_, err := fmt.Fprint(s.app.Stderr, b.String())
	return err
}

// sample has a witness: one violating sentence among compliant ones.
const sample = "Thank you for asking. You are a stupid idiot. I hope that this helps."

// curl is a command to paste into a shell.
func (s announcement) curl() string {
	token := ""
	switch {
	case s.flags.Private:
		token = ` -H "Authorization: Bearer $(cat ` + shellQuote(filepath.Join(s.flags.DataDir, cli.PrivateTokenFile)) + `)"`
	case s.flags.TokenFile != "" && !s.flags.TrustLoopback:
		token = " -H 'Authorization: Bearer TOKEN'"
	}
	if s.flags.TLSCert != "" {
		token += " --cacert CA"
	}
	return fmt.Sprintf(`curl -s %s/v1/score%s -H 'Content-Type: application/json' -d '{"responses":[{"id":"r1","response":"%s"}]}'`,
		s.service.URL(), token, sample)
}

// scoreCommand scores over NATS without a NATS client.
func (s announcement) scoreCommand(natsURL string) string {
	token := ""
	switch {
	case s.flags.Private && s.flags.embedded() && s.flags.NatsToken == "":
		token = " --data-dir " + shellQuote(s.flags.DataDir)
	case s.flags.NatsToken != "":
		token = " --nats-token TOKEN"
	}
	return fmt.Sprintf("echo '%s' | %s score --text --nats-url %s%s", sample, shellQuote(s.app.Program), serve.Reachable(natsURL), token)
}

// shellQuote quotes a word for a shell if necessary.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
