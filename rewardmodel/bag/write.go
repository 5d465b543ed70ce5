package bag

import (
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
)

// Write writes bags as JSONL, one a line, in order; Read gives them back equal.
// It refuses a bag that Read would refuse, with the field and the fault.
func Write(w io.Writer, bags iter.Seq[Bag]) error {
	for b := range bags {
		rec := newRecord(b)
		if field, err := rec.check(); err != nil {
			return fmt.Errorf("bag %q: %s: %w", b.ID, field, err)
		}
		line, err := json.Marshal(rec)
		if err != nil {
			return fmt.Errorf("bag %q: %w", b.ID, err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("bag %q: %w", b.ID, err)
		}
	}
	return nil
}

func newRecord(b Bag) record {
	label := string(b.Label)
	rec := record{
		ID: &b.ID, Label: &label, Prompt: b.Prompt, Rater: b.Rater, Time: b.Time,
		Instances: b.Instances, Messages: b.Messages, Witness: b.Witness,
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
