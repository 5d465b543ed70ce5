package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"assay/sidecar/cli"
)

// announce says that the service is ready and how to try it.
func (s *service) announce() error {
	m := s.live.versions.Load().Current()
	natsURL := ""
	if q := s.live.queue.Load(); q != nil {
		natsURL = q.URL()
	}
	precision, device := s.loader.computes()
	s.app.Log.Info().Str("http", s.httpURL()).Str("grpc", s.grpcAddress()).Str("nats", natsURL).Str("model", m.Version).
		Str("precision", string(precision)).Str("device", device).Msg("ready")
	if s.app.JSONLogs {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nassay is ready.\n  model  %s (%s on %s)\n  HTTP   %s\n", m.Version,
		precision, device, s.httpURL())
	if s.rpc != nil {
		fmt.Fprintf(&b, "  gRPC   %s\n", s.grpcAddress())
	}
	if natsURL != "" {
		fmt.Fprintf(&b, "  NATS   %s\n", natsURL)
	}
	fmt.Fprintf(&b, "\nTry it over HTTP:\n\n  %s\n", s.curl())
	if natsURL != "" {
		fmt.Fprintf(&b, "\nor over NATS:\n\n  %s\n", s.scoreLine(natsURL))
	}
	b.WriteString("\n")
	_, err := fmt.Fprint(s.app.Stderr, b.String())
	return err
}

// sample shows a witness: one bad sentence among good ones.
const sample = "Thank you for asking. You are a stupid idiot. I hope that this helps."

// curl is a line that works when pasted into a shell.
func (s *service) curl() string {
	token := ""
	switch {
	case s.cmd.Private:
		token = ` -H "Authorization: Bearer $(cat ` + shellWord(filepath.Join(s.cmd.DataDir, cli.PrivateTokenFile)) + `)"`
	case s.tokens != nil && !s.cmd.TrustLoopback:
		token = " -H 'Authorization: Bearer TOKEN'"
	}
	return fmt.Sprintf(`curl -s %s/v1/score%s -H 'Content-Type: application/json' -d '{"responses":[{"id":"r1","response":"%s"}]}'`,
		s.httpURL(), token, sample)
}

// scoreLine is one that needs no NATS client.
func (s *service) scoreLine(natsURL string) string {
	token := ""
	switch {
	case s.natsPrivate:
		token = " --data-dir " + shellWord(s.cmd.DataDir)
	case s.cmd.NatsToken != "":
		token = " --nats-token TOKEN"
	}
	return fmt.Sprintf("echo '%s' | %s score --text --nats-url %s%s", sample, shellWord(s.app.Program), reachable(natsURL), token)
}

func (s *service) httpURL() string { return reachable("http://" + s.listener.Addr().String()) }

// grpcAddress is what gRPC clients call a target, "" without --grpc-listen.
func (s *service) grpcAddress() string {
	if s.rpc == nil {
		return ""
	}
	_, address, _ := strings.Cut(reachable("grpc://"+s.rpc.Addr().String()), "://")
	return address
}

// reachable replaces an address that stands for every interface by one that a
// client on this machine can use.
func reachable(url string) string {
	scheme, address, _ := strings.Cut(url, "://")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return url
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// shellWord quotes a word for a shell where that is needed.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
