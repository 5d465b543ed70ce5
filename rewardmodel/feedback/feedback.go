// Package feedback processes labels of whole responses: the items that clients
// send, the records that are stored of them, and the labeled bags that result from
// the records of all raters.
//
// It is pure: package queue stores the records, and package api authorizes their
// senders.
package feedback

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"assay/rewardmodel/bag"
)

// Item is one label of one rater for one response. The bag has the text, or
// ResponseID identifies a response that was scored before.
type Item struct {
	bag.Bag
	ResponseID string
}

// HasText reports whether the item contains the text of the response.
func (it Item) HasText() bool {
	return it.Response != "" || it.Instances != nil || it.Messages != nil
}

// Batch is one request. Each item is in either Items or Rejected.
type Batch struct {
	ID       string // chosen by the client; only logged
	Items    []Entry
	Rejected []Rejection
}

// Entry is an item and its index in the request.
type Entry struct {
	Index int
	Item
}

// Code is why an item was rejected.
type Code string

// Why an item is rejected. A retry fails until the client fixes the fault in the
// message.
const (
	CodeInvalid  Code = "invalid"     // a field is missing or wrong
	CodeUnknown  Code = "unknown"     // no scored response with its response_id is stored
	CodeConflict Code = "id_conflict" // its id belongs to another text
	CodeErased   Code = "erased"      // its id was erased on request
	CodeTooLarge Code = "too_large"   // it exceeds the size limit of the store
	CodeNoText   Code = "no_text"     // the response has no utterance to learn from
)

// Rejection describes one rejected item.
type Rejection struct {
	Index   int    `json:"index"` // in the request, from 0
	ID      string `json:"id"`    // "" when it has none
	Code    Code   `json:"code"`
	Message string `json:"message"` // what is wrong, and the fix
}

// Receipt is the response to a batch. Accepted items are durable. Each item of the
// batch is accepted, a duplicate or rejected.
type Receipt struct {
	Accepted   int         `json:"accepted"`
	Duplicates int         `json:"duplicates"` // already known, or older than what is known
	Rejected   []Rejection `json:"rejected"`   // never nil
}

// Hash replaces an identifier where the identifier itself must not be stored: it
// is the first 16 bytes of its SHA-256.
type Hash [16]byte

// HashOf returns the hash of an identifier or a text.
func HashOf(s string) Hash {
	sum := sha256.Sum256([]byte(s))
	return Hash(sum[:16])
}

// String is the hash in hexadecimal, 32 digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Record is a stored item: the label of one rater for one response. A later record
// of the same response and rater replaces it.
type Record struct {
	Bag        bag.Bag   // with text, rater and time
	ResponseID string    // if the item has one
	Received   time.Time // by assay
	By         string    // name of the sender's token, or a name such as "loopback"; "" over NATS
	// Model is the version that scored the response, and Violation the score of
	// the bag, if known.
	Model     string
	Violation *float64
}

// Mark is the index entry of a record: enough to recognise a duplicate and to
// count labels, without the text.
type Mark struct {
	ID       Hash // of the response
	Rater    Hash
	Labels   Labels     // none: the rater has withdrawn them
	Text     Hash       // of the text
	Group    Hash       // of responses that are held out together; zero: none was recorded
	Sender   Hash       // who sent it; zero: without a token, or none was recorded
	Prompted bool       // the record has the prompt of the response
	Time     *time.Time // the rater's
	Sequence uint64     // of the record in its stream
}
