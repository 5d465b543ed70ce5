package api

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/rs/zerolog"

	"assay/rewardmodel"
)

// exchange collects what the access log says about one request.
type exchange struct {
	id          string                   // request id, the client's or ours
	traceparent string                   // W3C trace context, empty without a valid one
	route       string                   // pattern of the path, when another method was asked of it
	bytesIn     int64                    // body bytes read from the connection
	by          string                   // who calls: the name of a token, or how it came without one
	responses   int                      // responses that the request asked to score
	priority    rewardmodel.Priority     // that the client asked for
	items       int                      // labels that the request brought
	err         error                    // why it failed, for the log alone
	memory      *rewardmodel.Reservation // what it holds, until it is answered
	dialect     dialect                  // how a failure is worded; nil is assay's own way
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return exchangeIn(r.Context()) }

func exchangeIn(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// withExchange starts an exchange, whose id and trace may be the client's.
func withExchange(ctx context.Context, id, trace string) (context.Context, *exchange) {
	x := &exchange{id: requestID(id), traceparent: traceparent(trace)}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// describe adds what is known of the exchange to a line of the access log.
func (x *exchange) describe(event *zerolog.Event) {
	if x.by != "" {
		event.Str("by", x.by)
	}
	if x.responses > 0 {
		event.Int("responses", x.responses)
	}
	if x.items > 0 {
		event.Int("items", x.items)
	}
	if x.traceparent != "" {
		event.Str("traceparent", x.traceparent)
	}
	if x.err != nil {
		event.Str("error", rewardmodel.Shorten(x.err.Error()))
	}
	event.Msg("request")
}

const maxRequestID = 128

// requestID keeps the client's id when it is short and safe to log and echo,
// and makes a new one otherwise.
func requestID(given string) string {
	if given == "" || len(given) > maxRequestID || strings.ContainsFunc(given, notInID) {
		return rand.Text()
	}
	return given
}

func notInID(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-_.:/+=@", r)
}

// traceparent returns a W3C trace context header ("00-<32 hex>-<16 hex>-<2
// hex>") as it came, or nothing when it is malformed.
func traceparent(given string) string {
	parts := strings.Split(given, "-")
	if len(parts) != 4 {
		return ""
	}
	for i, length := range [4]int{2, 32, 16, 2} {
		if len(parts[i]) != length || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return ""
		}
	}
	return given
}
