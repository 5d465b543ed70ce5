package queue

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"assay/queue/internal/dedup"
	"assay/queue/internal/js"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"

	"github.com/nats-io/nats.go/jetstream"
)

// delivery is one delivery of a response from JetStream.
type delivery struct {
	msg  jetstream.Msg
	meta *jetstream.MsgMetadata
	tail string // of the subject: what follows "assay.v1.responses."
	key  string // identity of the response, the Nats-Msg-Id of its reward or dead letter
	// published is when the server stored it, and received when it was delivered, by the clock of
	// this process.
	published, received time.Time

	quarantine *quarantine // of its stream
	deaths     int         // of processes with the response in flight
	recreated  bool        // the consumer does not know its deliveries before it was created again
	exclusive  func(bool)  // rewardmodel.Request.Exclusive; nil unless it is scored in isolation

	memory  *rewardmodel.Reservation // until it is completed
	refused error                    // why the memory was refused, or nil
}

// charge reserves memory for the response and its item. If that is refused, the
// response fails when it would be decoded.
func (d *delivery) charge(memory *rewardmodel.Memory) {
	d.memory = memory.Open()
	data := d.msg.Data()
	d.refused = d.memory.Grow(int64(len(data)) + wire.DecodeBytes(data))
}

// newDelivery reads the metadata of msg, and whether its consumer is another one than before.
func newDelivery(msg jetstream.Msg, src *source) (*delivery, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("a message on %s is not from JetStream: %w", msg.Subject(), err)
	}
	d := &delivery{msg: msg, meta: meta, tail: strings.TrimPrefix(msg.Subject(), SubjectResponses+"."), received: time.Now()}
	d.key = responseKey(d.tail, d.msgID(), src.created, meta)
	d.quarantine = src.quarantine
	src.observe(meta.Sequence.Consumer)
	d.recreated = src.recreated
	d.published = src.clock.Local(meta.Timestamp)
	return d, nil
}

// responseKey identifies a response. With an id of the client, a response that the
// client publishes again, not knowing whether the first attempt arrived, gets no second
// reward even if the server has forgotten the first id. Ids are unique within a subject,
// since two jobs may both number from 1. A tail has no spaces, so that the two forms of
// keys differ. Without an id, the key has when the stream of responses was created, and when
// the response was stored, since sequences are used again when the stream is created again or
// has lost its end.
func responseKey(tail, id string, created time.Time, meta *jetstream.MsgMetadata) string {
	if len(id) > 200 || id != js.HeaderValue(id) { // it is a header of every reward, which every client must read as it was written
		id = fmt.Sprintf("%x", sha256.Sum256([]byte(id)))
	}
	if id != "" {
		return tail + " " + id
	}
	return "#" + strconv.FormatInt(created.UnixNano(), 36) + "." + strconv.FormatUint(meta.Sequence.Stream, 10) + "." + strconv.FormatInt(meta.Timestamp.UnixNano(), 36)
}

func (d *delivery) identity() dedup.Response {
	return dedup.Response{Key: d.key, Sequence: d.meta.Sequence.Stream}
}

func (d *delivery) msgID() string { return d.msg.Headers().Get(jetstream.MsgIDHeader) }

func (d *delivery) id(item string) string {
	return resultID(item, d.msgID(), strconv.FormatUint(d.meta.Sequence.Stream, 10))
}

// resultID returns the id of the result of a response: that of the item, else that of the
// message, else one that is the same at every delivery.
func resultID(item, msgID, sequence string) string {
	switch {
	case item != "":
		return item
	case msgID != "" && len(msgID) <= rewardmodel.MaxName:
		return msgID
	}
	return "seq-" + sequence
}

func (d *delivery) redelivered() bool { return d.meta.NumDelivered > 1 }

// mayHaveResult reports whether the response may have been delivered before.
func (d *delivery) mayHaveResult() bool { return d.redelivered() || d.recreated }

// deliveries returns how often the response was delivered, this time included. A server
// that died with its process may have forgotten some deliveries.
func (d *delivery) deliveries() uint64 { return max(d.meta.NumDelivered, uint64(d.deaths)+1) }
