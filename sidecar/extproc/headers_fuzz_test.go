package extproc

import (
	"net/http"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// The path of a request is that of :path, which Envoy forwards, whatever a client writes into its host.
func TestPathOfARequest(t *testing.T) {
	for name, c := range map[string]struct {
		authority, path string
		want            string // the path; "": an error
	}{
		"usual":                       {"a.example:8080", "/v1/chat/completions?x=1", "/v1/chat/completions"},
		"IPv6":                        {"[::1]:80", "/v1/models", "/v1/models"},
		"two slashes":                 {"a.example", "//c/../d%2f", "//c/../d/"},
		"all of the server":           {"a.example", "*", "*"},
		"a path in the authority":     {"a.example/v1/models?", "/v1/chat/completions", ""},
		"a query in the authority":    {"a.example?", "/v1/chat/completions", ""},
		"only a user":                 {"_@?", "/v1/chat/completions", ""},
		"a user":                      {"a@b", "/v1/chat/completions", ""},
		"no authority":                {"", "/v1/chat/completions", ""},
		"another host in the path":    {"a.example", "http://b.example/v1/models", ""},
		"a path without a slash":      {"a.example", "v1/models", ""},
		"a path that is a scheme":     {"a.example", "x:v1/models", ""},
		"a fragment in the authority": {"a.example#", "/v1/models", ""},
	} {
		r, err := requestOf(t.Context(), &core.HeaderMap{Headers: []*core.HeaderValue{{Key: ":authority", Value: c.authority}, {Key: ":path", Value: c.path}}})
		switch {
		case (err == nil) != (c.want != ""):
			t.Errorf("%s: %v", name, err)
		case err == nil && (r.URL.Path != c.want || r.Host != c.authority):
			t.Errorf("%s: the path is %q on %q", name, r.URL.Path, r.Host)
		}
	}
}

// FuzzHeaders reads arbitrary headers of Envoy: a request or response that is accepted
// has no pseudo-header, and no header is lost.
func FuzzHeaders(f *testing.F) {
	for _, m := range []*core.HeaderMap{
		{Headers: []*core.HeaderValue{{Key: ":authority", RawValue: []byte("a.example")}, {Key: ":path", Value: "/v1/chat/completions?x=1"}, {Key: ":method", Value: "POST"}, {Key: "x-a", Value: "1"}, {Key: "x-a", Value: "2"}}},
		{Headers: []*core.HeaderValue{{Key: ":status", RawValue: []byte("200")}, {Key: "content-type", RawValue: []byte("text/event-stream")}}},
		{Headers: []*core.HeaderValue{{Key: ":authority", Value: "a@b"}, {Key: ":path", Value: "//c/../d%2f"}, {Key: ":status", Value: "-7"}, {Key: "", RawValue: []byte("\xff")}}},
		{Headers: []*core.HeaderValue{{Key: ":status", Value: "-7"}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m core.HeaderMap
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		check := func(got http.Header) {
			values, want := 0, 0
			for name, all := range got {
				if name != "" && name[0] == ':' {
					t.Errorf("%q is a header", name)
				}
				values += len(all)
			}
			for _, one := range m.GetHeaders() {
				if one.Key == "" || one.Key[0] != ':' {
					want++
				}
			}
			if values != want {
				t.Errorf("%d headers of %d", values, want)
			}
		}
		if r, err := requestOf(t.Context(), &m); err == nil {
			check(r.Header)
			if r.URL.Host == "" || r.URL.Host != r.Host {
				t.Errorf("the request to %q is to %q: %s", r.Host, r.URL.Host, r.URL)
			}
		}
		if r, err := responseOf(&m); err == nil { //nolint:bodyclose // it has none
			check(r.Header)
			if r.StatusCode < 100 || r.StatusCode > 999 {
				t.Errorf("status %d", r.StatusCode)
			}
		}
	})
}
