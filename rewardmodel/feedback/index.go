package feedback

import (
	"sync"
	"time"
)

// Verdict says what to do with a record that somebody sends.
type Verdict int

// The verdicts of Index.Judge.
const (
	Accept    Verdict = iota // new, or a correction
	Duplicate                // known already, or older than what is known
	Conflict                 // its id stands for another text
	Erased                   // its id was erased
)

// String is the verdict in one word.
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

// Index knows every record and tombstone of the store by its mark. It holds no
// text, and some hundred bytes a record. All methods are safe for concurrent
// use.
//
// What it knows is a fold over marks and tombstones that does not depend on
// their order, nor on how often each comes: of the records of one response and
// rater the one with the highest sequence counts, and an erased id stays erased.
// Hence replicas that read the same stream agree, whatever else they know from
// their own publishing.
type Index struct {
	mu     sync.RWMutex
	last   uint64
	erased map[Hash]struct{}
	// first holds a record of every id. Neither its keys nor its values hold a
	// pointer, so that the garbage collector passes over it. The records of
	// further raters, which few responses have, are in others.
	first  map[Hash]record
	others map[Hash]*raters
	count  int
	// prompts counts the responses of each prompt group. placed holds the groups
	// of responses that Place has seen and Apply has not, which are counted.
	prompts map[Hash]int
	placed  map[Hash]Hash
}

// maxPlaced bounds the responses that were placed and never stored.
const maxPlaced = 1 << 16

// record is a mark without its id.
type record struct {
	rater, text Hash
	group       Hash // zero: none was recorded
	sequence    uint64
	seconds     int64 // of the rater's time, since 1970
	nanos       uint32
	timed       bool // there is a time
	violation   bool
}

// NewIndex returns an index of an empty store.
func NewIndex() *Index {
	return &Index{erased: map[Hash]struct{}{}, first: map[Hash]record{}, others: map[Hash]*raters{},
		prompts: map[Hash]int{}, placed: map[Hash]Hash{}}
}

func newRecord(m Mark) record {
	r := record{rater: m.Rater, text: m.Text, group: m.Group, sequence: m.Sequence, violation: m.Violation}
	if m.Time != nil {
		r.timed, r.seconds, r.nanos = true, m.Time.Unix(), uint32(m.Time.Nanosecond())
	}
	return r
}

func (r record) time() time.Time { return time.Unix(r.seconds, int64(r.nanos)) }

// Apply takes in a record of the stream. One that is older than another of the
// same id and rater changes nothing, nor does one of an erased id.
func (x *Index) Apply(m Mark) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = max(x.last, m.Sequence)
	if _, gone := x.erased[m.ID]; gone {
		return
	}
	r := newRecord(m)
	first, known := x.first[m.ID]
	if !known {
		x.count++
		x.first[m.ID] = r
		x.unplace(m.ID) // which had counted it
		x.countGroup(m.Group, 1)
		return
	}
	if first.rater == r.rater {
		if r.sequence > first.sequence {
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
		x.count++
	}
}

// Erase takes in a tombstone: the id has no record any more and never will.
func (x *Index) Erase(id Hash, sequence uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = max(x.last, sequence)
	x.erased[id] = struct{}{}
	x.unplace(id)
	if first, known := x.first[id]; known {
		x.countGroup(newest(first, x.others[id]).group, -1)
		x.count -= 1 + len(x.others[id].all())
		delete(x.first, id)
		delete(x.others, id)
	}
}

// Judge says what is to become of a record that is not stored yet; its sequence
// does not matter. Replaces is the sequence of the record of the same id and
// rater, whose place it takes when it is accepted; 0 when there is none.
//
// A record of a later time than the one it replaces is accepted even when it
// says the same; without both times, one with another label is.
func (x *Index) Judge(m Mark) (v Verdict, replaces uint64) {
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
	case !rated || own.text != m.Text || own.correctedBy(newRecord(m)):
		return Accept, replaces
	default:
		return Duplicate, replaces
	}
}

// correctedBy tells that the same rater says something new in r.
func (own record) correctedBy(r record) bool {
	if own.timed && r.timed {
		switch own.time().Compare(r.time()) {
		case -1:
			return true
		case 1:
			return false
		}
	}
	return own.violation != r.violation
}

// Last is the highest sequence that the index has seen.
func (x *Index) Last() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.last
}

// Erased tells that there is a tombstone for the id.
func (x *Index) Erased(id Hash) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, gone := x.erased[id]
	return gone
}
