package feedback

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"assay/rewardmodel/bag"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// recordJSON is the stored format of a record. Later releases may add fields, but
// not rename them.
type recordJSON struct {
	Bag        jsontext.Value `json:"bag"` // as on a line of a bag file
	ResponseID string         `json:"response_id,omitzero"`
	Received   time.Time      `json:"received,omitzero"`
	By         string         `json:"by,omitzero"`
	Model      string         `json:"model,omitzero"`
	Violation  *float64       `json:"violation,omitzero"`
}

// AppendJSON appends the record to dst as one JSON object without a line break.
// It rejects a bag that is invalid for package bag, and a score that is not finite.
func (r Record) AppendJSON(dst []byte) ([]byte, error) {
	stored, err := r.Bag.AppendJSON(nil)
	if err != nil {
		return dst, fmt.Errorf("feedback record: %w", err)
	}
	data, err := json.Marshal(recordJSON{
		Bag: stored, ResponseID: r.ResponseID, Received: r.Received, By: r.By, Model: r.Model, Violation: r.Violation,
	})
	if err != nil {
		return dst, fmt.Errorf("feedback record %q: %w", r.Bag.ID, err)
	}
	return append(dst, data...), nil
}

// ParseRecord is the inverse of AppendJSON. It ignores unknown fields.
func ParseRecord(data []byte) (Record, error) {
	var in recordJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return Record{}, fmt.Errorf("feedback record: %w", err)
	}
	b, err := bag.Decode(in.Bag)
	if err != nil {
		return Record{}, fmt.Errorf("feedback record: bag: %w", err)
	}
	return Record{
		Bag: b, ResponseID: in.ResponseID, Received: in.Received, By: in.By, Model: in.Model, Violation: in.Violation,
	}, nil
}

// Mark returns the mark of the record that is stored at the sequence. Records have
// the same text when their responses, instances or messages are equal; prompts are
// ignored.
func (r Record) Mark(sequence uint64) Mark {
	return Mark{
		ID: HashOf(r.Bag.ID), Rater: HashOf(r.Bag.Rater), Labels: LabelsOf(r.Bag),
		Text: textHash(r.Bag), Group: group(r.Bag), Sender: SenderOf(r.By),
		Prompted: r.Bag.Prompt != "", Time: r.Bag.Time, Sequence: sequence,
	}
}

// textHash hashes the form of the text and every string with its length, so that
// the encoding is unambiguous.
func textHash(b bag.Bag) Hash {
	h := sha256.New()
	var buffer []byte
	part := func(texts ...string) {
		for _, text := range texts {
			buffer = binary.AppendUvarint(buffer[:0], uint64(len(text)))
			h.Write(append(buffer, text...))
		}
	}
	switch {
	case b.Messages != nil:
		part("messages")
		for _, m := range b.Messages {
			part(m.Role, m.Content)
		}
	case b.Instances != nil:
		part("instances")
		part(b.Instances...)
	default:
		part("response", b.Response)
	}
	return Hash(h.Sum(nil)[:len(Hash{})])
}
