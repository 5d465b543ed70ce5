package extproc

import (
	"net/http"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

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
			if r.URL.Host == "" {
				t.Errorf("a request without a host: %s", r.URL)
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
