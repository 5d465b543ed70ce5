package queue

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"assay/rewardmodel"
	"github.com/nats-io/nats.go/jetstream"
)

// delivery is one response as JetStream handed it to us, once or again.
type delivery struct {
	msg  jetstream.Msg
	meta *jetstream.MsgMetadata
	tail string // of the subject: what follows "assay.v1.responses."
	key  string // identity of the response, the Nats-Msg-Id of whatever comes of it
	old  bool   // a reward that it had may be older than the streams remember ids
	// published is when the server stored it, by the clock of this process.
	published time.Time

	quarantine *quarantine // of its stream
	deaths     int         // of processes with the response in flight
	alone      func(bool)  // rewardmodel.Request.Alone; nil unless it is scored alone

	memory  *rewardmodel.Reservation // what it holds, until it is settled
	refused error                    // why it cannot hold that; nil if it can
}

// charge reserves what the response and its item hold. If that is refused, the
// response fails where it would be decoded.
func (d *delivery) charge(memory *rewardmodel.Memory) {
	d.memory = memory.Open()
	data := d.msg.Data()
	d.refused = d.memory.Grow(int64(len(data)) + rewardmodel.DecodeBytes(data))
}

// newDelivery reads what msg says about itself. Half the duplicate window leaves
// room for servers of a cluster whose clocks differ.
func newDelivery(msg jetstream.Msg, src source) (*delivery, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("a message on %s is not from JetStream: %w", msg.Subject(), err)
	}
	d := &delivery{msg: msg, meta: meta, tail: strings.TrimPrefix(msg.Subject(), SubjectResponses+".")}
	d.key = responseKey(d.tail, d.msgID(), src.created, meta.Sequence.Stream)
	d.quarantine = src.quarantine
	d.published = src.clock.local(meta.Timestamp)
	d.old = time.Since(d.published) > src.window/2
	return d, nil
}

// responseKey identifies a response. The client's own id does, if it gave one:
// then a response that it publishes again, not knowing whether the first
// attempt arrived, gets no second reward even when the server forgot the first
// id. Ids count within a subject, as two jobs may both number from 1. A tail
// holds no space, which keeps the two forms and their parts apart. The time of
// creation is that of the stream of responses, since sequences start again in
// one that is made anew.
func responseKey(tail, id string, created time.Time, sequence uint64) string {
	if len(id) > 200 { // it is copied into every reward
		id = fmt.Sprintf("%x", sha256.Sum256([]byte(id)))
	}
	if id != "" {
		return tail + " " + id
	}
	return "#" + strconv.FormatInt(created.UnixNano(), 36) + "." + strconv.FormatUint(sequence, 10)
}

func (d *delivery) msgID() string { return d.msg.Headers().Get(jetstream.MsgIDHeader) }

func (d *delivery) id(item string) string {
	return resultID(item, d.msgID(), strconv.FormatUint(d.meta.Sequence.Stream, 10))
}

// resultID is the id of the result of a response: the item's own, else that of
// the message, else one that is the same at every delivery.
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

// deliveries is how often the response was delivered, this time included. A
// server that died with its process may have forgotten some.
func (d *delivery) deliveries() uint64 { return max(d.meta.NumDelivered, uint64(d.deaths)+1) }

// retryDelay is how long a response rests after its nth delivery failed:
// doubling from base, at most most, and spread by a quarter so that a crowd
// does not come back at once.
func retryDelay(deliveries uint64, base, most time.Duration) time.Duration {
	delay := most
	if n := deliveries - 1; n < 32 && base<<n < most {
		delay = base << n
	}
	return delay - time.Duration(rand.Int64N(int64(delay)/4+1))
}
