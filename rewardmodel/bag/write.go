package bag

import (
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
)

// Write writes bags as JSONL, one per line, in order; Read returns equal bags. It
// rejects a bag that Read would reject, with the field and the fault.
func Write(w io.Writer, bags iter.Seq[Bag]) error {
	for b := range bags {
		line, err := b.AppendJSON(nil)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("bag %q: %w", b.ID, err)
		}
	}
	return nil
}

// AppendJSON appends the bag to dst as one line of a bag file, without the line
// break, and refuses what Write refuses.
func (b Bag) AppendJSON(dst []byte) ([]byte, error) {
	rec := newRecord(b)
	if field, err := rec.check(whole); err != nil {
		return dst, fmt.Errorf("bag %q: %s: %w", b.ID, field, err)
	}
	line, err := json.Marshal(rec, json.Deterministic(true))
	if err != nil {
		return dst, fmt.Errorf("bag %q: %w", b.ID, err)
	}
	return append(dst, line...), nil
}

func newRecord(b Bag) record {
	rec := record{
		ID: &b.ID, Prompt: b.Prompt, Comparison: b.Comparison, Rater: b.Rater, Time: b.Time,
		Instances: b.Instances, Messages: b.Messages, Witness: b.Witness,
	}
	if b.Label != "" {
		rec.Label = new(string(b.Label))
	}
	if b.Labels != nil {
		rec.Labels = make(map[string]string, len(b.Labels))
	}
	for aspect, label := range b.Labels {
		rec.Labels[aspect] = string(label)
	}
	if b.Response != "" || b.Instances == nil && b.Messages == nil {
		rec.Response = &b.Response
	}
	if b.Spans != nil {
		rec.Spans = [][]int{}
	}
	for _, s := range b.Spans {
		rec.Spans = append(rec.Spans, s[:])
	}
	return rec
}
