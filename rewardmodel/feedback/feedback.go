// Package feedback holds what people say about whole responses: the items that
// they send, the records that are kept of them, and the labelled bags that the
// records of all raters add up to.
//
// It is pure: where records are kept is the business of package queue, and who
// may send them that of package api.
package feedback

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"assay/rewardmodel/bag"
)

// Item is one label of one rater on one response. Its text is in the bag, or
// assay has scored it before and knows it by ResponseID.
type Item struct {
	bag.Bag
	ResponseID string
}

// HasText tells that the item carries the response itself.
func (it Item) HasText() bool {
	return it.Response != "" || it.Instances != nil || it.Messages != nil
}

// Batch is what came in one request. Items and Rejected together are all of
// it.
type Batch struct {
	ID       string // the client's name for it; only logged
	Items    []Entry
	Rejected []Rejection
}

// Entry is an item and its place in the request.
type Entry struct {
	Index int
	Item
}

// Code says why an item was rejected.
type Code string

// Why an item is rejected. Sending it again does not help until what the
// message names is mended.
const (
	CodeInvalid    Code = "invalid"     // a field is missing or wrong
	CodeUnknown    Code = "unknown"     // its response_id names nothing that is kept
	CodeConflict   Code = "id_conflict" // its id stands for another text already
	CodeErased     Code = "erased"      // its id was erased on request
	CodeTooLarge   Code = "too_large"   // the store takes no item of this size
	CodeUnlabelled Code = "no_text"     // the response has no utterance to learn from
)

// Rejection tells of one item that was not taken.
type Rejection struct {
	Index   int    `json:"index"` // in the request, from 0
	ID      string `json:"id"`    // "" when it has none
	Code    Code   `json:"code"`
	Message string `json:"message"` // what is wrong, and the fix
}

// Receipt answers a batch, once everything that it counts as accepted is
// durable. Accepted, Duplicates and the rejected are all items of the batch.
type Receipt struct {
	Accepted   int         `json:"accepted"`
	Duplicates int         `json:"duplicates"` // already known, or older than what is known
	Rejected   []Rejection `json:"rejected"`   // never nil
}

// Hash stands for an identifier where the identifier itself must not be kept:
// the first 16 bytes of its SHA-256.
type Hash [16]byte

// HashOf returns the hash of an identifier or a text.
func HashOf(s string) Hash {
	sum := sha256.Sum256([]byte(s))
	return Hash(sum[:16])
}

// String is the hash in hexadecimal, 32 digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Record is what is kept of an item: the label that one rater gives to one
// response. A later record of the same response and rater takes its place.
type Record struct {
	Bag        bag.Bag   // with text, rater and time
	ResponseID string    // when the item named one
	Received   time.Time // by assay
	By         string    // the name of the token that sent it, or "loopback" and the like; "" over NATS
	// Model and Violation are the version that had scored the response and
	// the score of the bag, when it is known.
	Model     string
	Violation *float64
}

// Mark is what the index remembers of a record: enough to recognise a
// duplicate and to count labels, and no text.
type Mark struct {
	ID        Hash // of the response
	Rater     Hash
	Violation bool       // the label
	Text      Hash       // of the text
	Group     Hash       // of responses that are held out together; zero: none was recorded
	Time      *time.Time // the rater's
	Sequence  uint64     // of the record in its stream
}
