package feedback

import (
	"sync"
	"time"
)

// Verdict is whether to accept a new record.
type Verdict int

// The verdicts of Index.Check.
const (
	Accept    Verdict = iota // new, or a correction
	Duplicate                // known, or older than the known record
	Conflict                 // its id belongs to another text
	Erased                   // its id was erased
)

// String returns the verdict in one word.
func (v Verdict) String() string {
	switch v {
	case Accept:
		return "accept"
	case Duplicate:
		return "duplicate"
	case Conflict:
		return "conflict"
	case Erased:
		return "erased"
	default:
		return "unknown"
	}
}

// Index has the mark of every record and tombstone of the store. It contains no
// text, and takes some hundred bytes per record. All methods are safe for concurrent
// use.
//
// Its state does not depend on the order of marks and tombstones, nor on how often
// each is applied: of the records of one response and rater the one with the highest
// sequence counts, and an erased id stays erased. Hence replicas that read the same
// stream agree, even if a replica applies its own records earlier.
type Index struct {
	mu      sync.RWMutex
	last    uint64
	changes uint64
	erased  map[Hash]struct{}
	// first has one record of every id. Neither its keys nor its values contain a
	// pointer, so that the garbage collector does not scan it. The records of
	// further raters, which few responses have, are in others.
	first  map[Hash]record
	others map[Hash]*raters
	names  aspectNames
	// prompts counts the responses of each prompt group. placed has the groups of
	// responses that Place has counted and Apply has not received.
	prompts map[Hash]int
	placed  map[Hash]Hash
}

// maxPlaced limits the responses that were placed but never stored.
const maxPlaced = 1 << 16

// record is a mark without its id.
type record struct {
	rater, text Hash
	group       Hash // zero: none was recorded
	sender      Hash // zero: without a token
	sequence    uint64
	seconds     int64 // of the rater's time, since 1970
	nanos       uint32
	timed       bool // the rater gave a time
	prompted    bool
	labels      labelSet
}

// NewIndex returns an index of an empty store.
func NewIndex() *Index {
	return &Index{erased: map[Hash]struct{}{}, first: map[Hash]record{}, others: map[Hash]*raters{},
		names: newAspectNames(), prompts: map[Hash]int{}, placed: map[Hash]Hash{}}
}

func (x *Index) newRecord(m Mark) record {
	r := record{rater: m.Rater, text: m.Text, group: m.Group, sender: m.Sender, sequence: m.Sequence, prompted: m.Prompted, labels: x.names.put(m.Labels)}
	if m.Time != nil {
		r.timed, r.seconds, r.nanos = true, m.Time.Unix(), uint32(m.Time.Nanosecond())
	}
	return r
}

// withdrawn reports that the rater has withdrawn the label.
func (r record) withdrawn() bool { return r.labels == labelSet{} }

func (r record) time() time.Time { return time.Unix(r.seconds, int64(r.nanos)) }

// Apply adds a record of the stream. It ignores a record that is older than another
// of the same id and rater, and a record of an erased id.
func (x *Index) Apply(m Mark) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = max(x.last, m.Sequence)
	if _, gone := x.erased[m.ID]; gone {
		return
	}
	r := x.newRecord(m)
	first, known := x.first[m.ID]
	if !known {
		x.changes++
		x.first[m.ID] = r
		x.unplace(m.ID) // countGroup counts it again
		x.countGroup(m.Group, 1)
		return
	}
	if first.rater == r.rater {
		if r.sequence > first.sequence {
			x.changes++
			x.first[m.ID] = r
		}
		return
	}
	others := x.others[m.ID]
	if others == nil {
		others = &raters{}
		x.others[m.ID] = others
	}
	if others.put(r) {
		x.changes++
	}
}

// Erase adds a tombstone: it removes the records of the id, and Apply ignores new
// ones.
func (x *Index) Erase(id Hash, sequence uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = max(x.last, sequence)
	x.erased[id] = struct{}{}
	x.unplace(id)
	if first, known := x.first[id]; known {
		x.changes++
		x.countGroup(newest(first, x.others[id]).group, -1)
		delete(x.first, id)
		delete(x.others, id)
	}
}

// Check returns whether to accept a record that is not stored yet; it ignores the
// sequence. replaces is the sequence of the record of the same id and rater that an
// accepted record replaces; 0: none.
//
// A record with a later time than the one it replaces is accepted even with the
// same labels. Without both times, only a record with other labels is, or one that adds
// the prompt.
func (x *Index) Check(m Mark) (v Verdict, replaces uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if _, gone := x.erased[m.ID]; gone {
		return Erased, 0
	}
	first, known := x.first[m.ID]
	if !known {
		return Accept, 0
	}
	others := x.others[m.ID]
	own, rated := first, first.rater == m.Rater
	if i := others.find(m.Rater); i >= 0 {
		own, rated = others.records[i], true
	}
	if rated {
		replaces = own.sequence
	}
	switch {
	case newest(first, others).text != m.Text:
		return Conflict, replaces
	case !rated || own.text != m.Text || x.corrects(m, own):
		return Accept, replaces
	default:
		return Duplicate, replaces
	}
}

// IDs returns the number of ids with a record, also of a label that was withdrawn, or
// with a tombstone.
func (x *Index) IDs() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.first) + len(x.erased)
}

// Has reports whether there is a record of the id, of any rater.
func (x *Index) Has(id Hash) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, known := x.first[id]
	return known
}

// corrects reports whether a mark is a correction of a record of the same rater.
func (x *Index) corrects(m Mark, own record) bool {
	if own.timed && m.Time != nil {
		switch own.time().Compare(*m.Time) {
		case -1:
			return true
		case 1:
			return false
		}
	}
	labels, known := x.names.set(m.Labels)
	return !known || labels != own.labels || m.Prompted && !own.prompted
}

// Last returns the highest sequence of the index.
func (x *Index) Last() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.last
}

// Changes counts how often the records changed. While it is the same, so are Stats of
// the same arguments. Last does not show that: records are not applied in the order of
// their sequences.
func (x *Index) Changes() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.changes
}

// Erased reports whether there is a tombstone for the id.
func (x *Index) Erased(id Hash) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, gone := x.erased[id]
	return gone
}
