// Package js holds what the parts of queue share of JetStream: retries and the
// classification of errors, atomic batches, reading streams in order, erasing
// messages, a key-value bucket that is changed by compare-and-set, and the header by
// which assay recognizes the records that it wrote.
package js

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// New returns the JetStream of a domain, "" for the domain of the server.
func New(nc *nats.Conn, domain string, opts ...jetstream.JetStreamOpt) (jet jetstream.JetStream, err error) {
	if domain != "" {
		jet, err = jetstream.NewWithDomain(nc, domain, opts...)
	} else {
		jet, err = jetstream.New(nc, opts...)
	}
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return jet, nil
}
