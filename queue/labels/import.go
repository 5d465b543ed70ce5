package labels

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
)

// importChunk is how many records are stored together.
const importChunk = 500

// Import stores what Export wrote. It first reads the whole file, and stores nothing of
// a damaged one. A record replaces a damaged one, and never an intact one of its
// response and rater, whichever is newer: it is then a duplicate, so that an
// interrupted import can be repeated, and an import undoes no correction or withdrawal.
// A record whose id has another text here is not stored, and an id that was erased on
// either side is erased. Labels keep who sent them, when, and their group of the
// hold-out. Its error wraps ErrDamagedFile, feedback.ErrStoreFull or
// feedback.ErrUnavailable, or is that of ctx or file.
func (l *Log) Import(ctx context.Context, file io.ReadSeeker) (feedback.Imported, error) {
	var out feedback.Imported
	err := readFile(file, func(line int, e fileEntry) error {
		_, err := parseEntry(line, e)
		return err
	})
	if err != nil {
		return out, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return out, err
	}
	if _, err := l.Verify(ctx); err != nil { // so that the damaged records are known
		return out, err
	}
	if err := l.CaughtUp(ctx); err != nil {
		return out, err
	}
	var chunk []*imported
	flush := func() error {
		err := l.importAll(ctx, chunk, &out)
		chunk = chunk[:0]
		return err
	}
	taken, bytes := map[string]bool{}, 0
	err = readFile(file, func(line int, e fileEntry) error {
		r, err := parseEntry(line, e)
		if err != nil {
			return err
		}
		if r.tombstone {
			return l.importErasure(ctx, r.mark.ID, &out)
		}
		id := r.mark.ID.String()
		if len(chunk) == importChunk || taken[id] || bytes+len(r.data) > maxBatchBytes/2 { // those of one id in order
			clear(taken)
			bytes = 0
			if err := flush(); err != nil {
				return err
			}
		}
		taken[id] = true
		bytes += len(r.data)
		chunk = append(chunk, r)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return out, err
}

// imported is a message of an export.
type imported struct {
	line      int
	subject   string
	header    nats.Header
	data      []byte
	mark      feedback.Mark
	tombstone bool // mark has only the id
	token     string
	condition
}

// parseEntry verifies a message of an export.
func parseEntry(line int, e fileEntry) (*imported, error) {
	r := &imported{line: line, subject: e.Subject, header: nats.Header{}, data: []byte(e.Record), token: rand.Text()}
	for name, value := range e.Headers {
		r.header.Set(name, value)
	}
	sealed, err := js.Verify(r.subject, r.header, r.data)
	if err == nil && !(sealed && js.Authentic(r.subject, r.header)) {
		err = js.ErrDamaged
	}
	if err == nil {
		id, tombstone := strings.CutPrefix(r.subject, subjectTombstones+".")
		if r.tombstone = tombstone; tombstone {
			r.mark.ID, err = feedback.ParseHash(id)
		} else {
			r.mark, err = readMark(r.subject, r.header, 0)
		}
	}
	if err == nil && !r.tombstone && !r.mark.Labels.Withdrawn() {
		_, err = feedback.ParseRecord(r.data)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", ErrDamagedFile, line, err)
	}
	return r, nil
}

func (l *Log) importErasure(ctx context.Context, id feedback.Hash, out *feedback.Imported) error {
	if l.Index().Erased(id) {
		out.Duplicates++
		return nil
	}
	if err := l.ensureTombstone(ctx, id); err != nil {
		return err
	}
	out.Erasures++
	return l.remove(ctx, id)
}

// importAll stores records of different ids.
func (l *Log) importAll(ctx context.Context, rest []*imported, out *feedback.Imported) error {
	for round := 0; len(rest) > 0; round++ {
		if round == maxRounds {
			return unavailable(ctx, fmt.Errorf("line %d: other clients keep storing labels of this response and rater", rest[0].line))
		}
		var c commit
		var storing, again []*imported
		for _, r := range rest {
			if w := l.prepareImport(r, out); w != nil {
				c.add(w, r.mark.ID, r.first)
				storing = append(storing, r)
			}
		}
		if len(c.writes) == 0 {
			return nil
		}
		if err := l.commit(ctx, &c); err != nil {
			return err
		}
		for i, r := range storing {
			switch w := c.writes[i]; {
			case w.err == nil:
				r.mark.Sequence = w.sequence
				l.Index().Apply(r.mark)
				out.Imported++
			case js.WrongSequence(w.err):
				own, err := l.refreshImport(ctx, r)
				if err != nil {
					return err
				}
				if own {
					out.Imported++
				} else {
					again = append(again, r)
				}
			case js.TooLarge(w.err):
				return fmt.Errorf("line %d: %w; raise the maximum payload of the NATS server", r.line, w.err)
			default:
				return fmt.Errorf("line %d: %w", r.line, w.err)
			}
		}
		rest = again
	}
	return nil
}

// prepareImport returns the write of a record, or nil and counts why there is none.
func (l *Log) prepareImport(r *imported, out *feedback.Imported) *write {
	r.update(l.Index(), r.mark) // before the check, as of a candidate
	verdict, replaces := l.Index().Check(r.mark)
	known := l.cfg.Damage.Known(js.DamagedRecord{Stream: StreamFeedback, Subject: r.subject, Sequence: replaces})
	switch {
	case verdict == feedback.Conflict:
		out.Conflicts++
		return nil
	case verdict == feedback.Erased:
		out.Erased++
		return nil
	case replaces > 0 && !known: // it may be later than the export
		out.Duplicates++
		return nil
	}
	msg := &nats.Msg{Subject: r.subject, Data: r.data, Header: nats.Header{}}
	for name := range r.header {
		msg.Header.Set(name, r.header.Get(name))
	}
	r.set(msg.Header, r.token, replaces)
	js.Seal(msg.Subject, msg.Header, msg.Data)
	return &write{msg: msg}
}

// refreshImport reads what is stored in the place of a record, and reports whether it
// is the record itself, whose acknowledgement was lost.
func (l *Log) refreshImport(ctx context.Context, r *imported) (own bool, err error) {
	latest, err := l.latest(ctx, r.compared)
	if err != nil {
		return false, err
	}
	if latest.unrecognized {
		r.found = &latest.mark.Sequence
		return false, nil
	}
	r.found = nil
	l.Index().Apply(latest.mark)
	return strings.HasPrefix(latest.id, r.token), nil
}
