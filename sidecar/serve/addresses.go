package serve

import (
	"net"
	"strings"

	"assay/rewardmodel/encoder"
)

// URL is where HTTP is served, as a client on this machine can use it.
func (s *Service) URL() string { return Reachable("http://" + s.listener.Addr().String()) }

// GRPCAddress is the target for gRPC clients, "" without Config.GRPCListen.
func (s *Service) GRPCAddress() string {
	if s.grpc == nil {
		return ""
	}
	_, address, _ := strings.Cut(Reachable("grpc://"+s.grpc.Addr().String()), "://")
	return address
}

// NATSURL is that of the NATS server, embedded or not; "" before Ready, and without NATS.
func (s *Service) NATSURL() string {
	if q := s.handle.queue.Load(); q != nil {
		return q.URL()
	}
	return ""
}

// Model is the version that scores, and how it computes. Call it after Ready.
func (s *Service) Model() (version string, precision encoder.Precision, device string) {
	precision, device = s.loader.precisionAndDevice()
	return s.handle.versions.Load().Current().Version, precision, device
}

// Reachable replaces an address that stands for every interface by one that a
// client on this machine can use.
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
