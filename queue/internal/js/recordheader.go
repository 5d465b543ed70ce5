package js

import (
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// HeaderRecord marks the messages that the replicas of assay store for internal
// use: labels, tombstones, values of ASSAY_STATE, metadata of objects, and events.
// Its value is the subject that the message was published to. Seal sets it.
//
// NATS lets a client choose the subject of a reply, of the acknowledgement of a
// publication, and of the deliveries of a consumer. None of those carries this
// header for the subject that it reaches. This makes spoofing harder for a client that
// shares an account with assay, but does not prevent it: the header is not a signature,
// and Authentic accepts messages of earlier releases. Only separate accounts
// guarantee that a client without permission for a subject cannot write to it.
const HeaderRecord = "Assay-Record"

// headerKVOperation marks a message of a key-value bucket that deletes its key.
const headerKVOperation = "KV-Operation"

// Authentic reports whether a stored message was published to its subject by
// assay, or by an operator's tool with the same permissions.
//
// Earlier releases wrote no HeaderRecord. Their messages have a Nats-Msg-Id, which
// replies and acknowledgements never have; the ids of rewards and dead letters,
// which a consumer may deliver anywhere, contain a space or start with #. The NATS
// tools set KV-Operation or Nats-Rollup on what they delete.
func Authentic(subject string, header nats.Header) bool {
	if record := header.Get(HeaderRecord); record != "" {
		return record == subject
	}
	if header.Get(headerKVOperation) != "" || header.Get(jetstream.MsgRollup) != "" {
		return true
	}
	id := header.Get(jetstream.MsgIDHeader)
	return id != "" && !strings.HasPrefix(id, "#") && !strings.Contains(id, " ")
}
