package exchange

import (
	"crypto/tls"
	"crypto/x509"
)

// Caller is what a request shows of its sender, over HTTP and gRPC alike.
type Caller struct {
	Remote        string              // address of the connection
	Host          string              // how the request names the service: Host, or :authority
	Authorization []string            // values of that header
	Headers       map[string][]string // all headers, or the metadata of gRPC

	Certificate *x509.Certificate // of the client, verified by the TLS handshake; nil: none

	// Of a browser with a session of the console; gRPC has none.
	Session string // id of the session
	CSRF    string // CSRF token that the request presents
	Changes bool   // whether the method may change something
}

// CertificateOf returns the client certificate that a handshake has verified, nil if
// there is none.
func CertificateOf(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}
