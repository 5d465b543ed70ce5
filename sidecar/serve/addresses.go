package serve

import (
	"net"
	"strings"

	"assay/rewardmodel/encoder"
)

// URL is the URL of HTTP for clients on this machine.
func (s *Service) URL() string {
	scheme := "http://"
	if s.tls != nil {
		scheme = "https://"
	}
	return Reachable(scheme + s.listener.Addr().String())
}

// GRPCAddress is the target for gRPC clients, "" without Config.GRPCListen.
func (s *Service) GRPCAddress() string {
	if s.grpc == nil {
		return ""
	}
	_, address, _ := strings.Cut(Reachable("grpc://"+s.grpc.Addr().String()), "://")
	return address
}

// NATSURL is the URL of the NATS server, embedded or external; "" before Ready, and without NATS.
func (s *Service) NATSURL() string {
	if q := s.handle.queue.Load(); q != nil {
		return q.URL()
	}
	return ""
}

// Model is the version that scores, and its precision and device. Call it after Ready.
func (s *Service) Model() (version string, precision encoder.Precision, device string) {
	precision, device = s.loader.precisionAndDevice()
	return s.handle.versions.Load().Current().Version, precision, device
}

// Reachable replaces the unspecified address in a URL, such as 0.0.0.0, with
// loopback, for clients on this machine.
func Reachable(url string) string {
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
