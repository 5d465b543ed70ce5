package labels

import (
	"strconv"

	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// condition is what must be in the place of a record when the server stores it: the
// record of the same rater that the index knows, or none. Where the index knows no record
// of the id, there must be none of any rater, so that of two texts that are stored under
// one id at the same moment, the server accepts the first.
type condition struct {
	compared string  // subject whose last sequence is compared; with a wildcard if first is set
	first    bool    // the index knows no record of the id
	found    *uint64 // that sequence, where the index does not know it
}

// update sets what is compared for a record that is stored next.
func (c *condition) update(index *feedback.Index, mark feedback.Mark) {
	switch first := !index.Has(mark.ID); {
	case c.compared != "" && first == c.first:
	case first:
		*c = condition{compared: recordSubjects(mark.ID), first: true}
	default:
		*c = condition{compared: recordSubject(mark.ID, mark.Rater)}
	}
}

// set adds the condition to the headers of a record that replaces a sequence; 0: none.
// The Nats-Msg-Id is that of the attempt to replace it.
func (c *condition) set(header nats.Header, token string, replaces uint64) {
	if c.found != nil {
		replaces = *c.found
	}
	last := strconv.FormatUint(replaces, 10)
	header.Set(jetstream.ExpectedStreamHeader, StreamFeedback)
	header.Set(jetstream.ExpectedLastSubjSeqHeader, last)
	if c.first {
		header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, c.compared)
	}
	header.Set(jetstream.MsgIDHeader, token+"."+last)
}
