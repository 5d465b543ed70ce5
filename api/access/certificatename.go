package access

import (
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
)

// certificateName is a name that a client certificate has, as the token file gives it.
type certificateName struct {
	kind  string // cn, dns or uri; "" for no certificate
	value string
}

// parseCertificateName parses "cn=NAME", "dns=NAME" or "uri=URI".
func parseCertificateName(text string) (name certificateName, ok bool) {
	name.kind, name.value, _ = strings.Cut(text, "=")
	switch name.kind {
	case "cn", "dns", "uri":
		return name, name.value != "" && len(name.value) <= maxToken
	}
	return certificateName{}, false
}

// String is the text that parseCertificateName parses.
func (n certificateName) String() string { return n.kind + "=" + n.value }

// matches reports whether a verified certificate has the name. Wildcards are not
// expanded: they are for servers.
func (n certificateName) matches(certificate *x509.Certificate) bool {
	switch n.kind {
	case "cn":
		return certificate.Subject.CommonName == n.value
	case "dns":
		return slices.ContainsFunc(certificate.DNSNames, func(name string) bool { return strings.EqualFold(name, n.value) })
	case "uri":
		return slices.ContainsFunc(certificate.URIs, func(uri *url.URL) bool { return uri.String() == n.value })
	}
	return false
}
