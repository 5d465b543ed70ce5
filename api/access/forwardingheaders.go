package access

import (
	"slices"
	"strings"
)

// forwardingHeaders are headers that proxies, load balancers and content delivery
// networks add to a request, in lowercase. No client of assay has a reason to send
// one.
var forwardingHeaders = []string{
	"forwarded", "forwarded-for", "x-forwarded", "via", "x-via", "client-ip", "real-ip", "remote-addr", "remote-ip",
	"x-client-ip", "x-real-ip", "x-remote-ip", "x-remote-addr", "x-originating-ip", "x-source-ip", "x-host", "x-scheme",
	"x-url-scheme", "x-rewrite-url", "x-proxyuser-ip", "x-proxy-user-ip", "x-cluster-client-ip", "true-client-ip",
	"wl-proxy-client-ip", "proxy-client-ip", "x-coming-from", "incap-client-ip", "do-connecting-ip", "cdn-loop",
	"x-amz-cf-id", "x-azure-ref", "x-azure-clientip", "x-azure-socketip",
}

// forwardingPrefixes are prefixes of further such headers.
var forwardingPrefixes = []string{
	"x-forwarded-", "x-original-", "x-envoy-", "x-proxy-", "x-arr-", "x-appengine-", "x-vercel-", "x-nf-",
	"cf-", "cloudfront-", "fastly-", "fly-", "akamai-", "x-akamai-",
}

// forwardedBy returns the name of a header that shows that a proxy forwarded the
// request, or "". Its presence decides, even if it is empty: the client chooses the
// first value of a header that a proxy appends to. Names compare without regard to
// case, and _ equals -, since some servers replace one with the other. headers are
// those of net/http or the metadata of gRPC.
func forwardedBy(headers map[string][]string) string {
	found := ""
	for given := range headers {
		name := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(given)), "_", "-")
		hit := slices.Contains(forwardingHeaders, name) ||
			slices.ContainsFunc(forwardingPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if hit && (found == "" || given < found) { // deterministic
			found = given
		}
	}
	return found
}
