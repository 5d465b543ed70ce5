package extproc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// headersOf splits the headers of Envoy into those of HTTP and the pseudo-headers.
func headersOf(m *core.HeaderMap) (h http.Header, pseudo map[string]string) {
	h, pseudo = http.Header{}, map[string]string{}
	for _, one := range m.GetHeaders() {
		value := one.Value
		if len(one.RawValue) > 0 {
			value = string(one.RawValue)
		}
		if strings.HasPrefix(one.Key, ":") {
			pseudo[one.Key] = value
		} else {
			h.Add(one.Key, value)
		}
	}
	return h, pseudo
}

// requestOf is the request with some headers of Envoy. The path is that of :path, as Envoy forwards it, whatever is in
// :authority.
func requestOf(ctx context.Context, m *core.HeaderMap) (*http.Request, error) {
	h, pseudo := headersOf(m)
	host := pseudo[":authority"]
	if host == "" {
		return nil, errors.New(":authority is missing")
	}
	target, err := url.Parse("http://" + host)
	if err != nil {
		return nil, fmt.Errorf(":authority: %w", err)
	}
	if target.Host != host { // it has a user, a path or a query
		return nil, fmt.Errorf(":authority is %.80q; it must be a host, with or without a port", host)
	}
	if path := pseudo[":path"]; path != "" {
		if target, err = url.ParseRequestURI(path); err != nil {
			return nil, fmt.Errorf(":path: %w", err)
		}
		if target.Host != "" || target.Opaque != "" {
			return nil, fmt.Errorf(":path is %.80q; it must begin with /", path)
		}
		target.Scheme, target.Host = "http", host
	}
	r, err := http.NewRequestWithContext(ctx, pseudo[":method"], "", nil) // which checks the method
	if err != nil {
		return nil, err
	}
	r.URL, r.Host, r.Header = target, host, h
	return r, nil
}

func responseOf(m *core.HeaderMap) (*http.Response, error) {
	h, pseudo := headersOf(m)
	code, err := strconv.Atoi(pseudo[":status"])
	if err != nil {
		return nil, fmt.Errorf(":status: %w", err)
	}
	if code < 100 || code > 999 { // what net/http writes
		return nil, fmt.Errorf(":status is %d; it must have three digits", code)
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, ContentLength: -1,
	}, nil
}

// ofEnvoy are the headers that Envoy sets itself.
var ofEnvoy = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// mutation turns the headers that Envoy has into others.
func mutation(from, to http.Header) *extproc.HeaderMutation {
	m := &extproc.HeaderMutation{}
	for name := range from {
		if _, kept := to[name]; !kept && !slices.Contains(ofEnvoy, name) {
			m.RemoveHeaders = append(m.RemoveHeaders, strings.ToLower(name))
		}
	}
	slices.Sort(m.RemoveHeaders)
	changed := http.Header{}
	for name, values := range to {
		if !slices.Equal(values, from[name]) && !slices.Contains(ofEnvoy, name) && !strings.HasPrefix(name, http.TrailerPrefix) {
			changed[name] = values
		}
	}
	m.SetHeaders = headerOptions(changed)
	return m
}

// headerOptions replaces headers.
func headerOptions(h http.Header) (options []*core.HeaderValueOption) {
	for name, values := range h {
		for i, value := range values {
			action := core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
			if i > 0 {
				action = core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
			}
			options = append(options, &core.HeaderValueOption{
				Header: &core.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(value)}, AppendAction: action,
			})
		}
	}
	slices.SortStableFunc(options, func(a, b *core.HeaderValueOption) int { return strings.Compare(a.Header.Key, b.Header.Key) })
	return options
}

// requestHeadersReply lets the request continue. The upstream must not compress, because
// compressed text cannot be scored.
func requestHeadersReply() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{
		Response: &extproc.CommonResponse{HeaderMutation: &extproc.HeaderMutation{RemoveHeaders: []string{"accept-encoding"}}},
	}}}
}

func bodyReply() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{}}}
}
