package extproc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

func requestOf(ctx context.Context, m *core.HeaderMap) (*http.Request, error) {
	h, pseudo := headersOf(m)
	if pseudo[":authority"] == "" {
		return nil, errors.New(":authority is missing")
	}
	r, err := http.NewRequestWithContext(ctx, pseudo[":method"], "http://"+pseudo[":authority"]+pseudo[":path"], nil)
	if err != nil {
		return nil, err
	}
	r.Header = h
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
