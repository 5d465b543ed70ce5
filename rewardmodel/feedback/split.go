package feedback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Split divides the labelled responses into those to train on and those that
// are held out for the gate.
type Split struct {
	// Share in [0,1] is the share of groups that is held out. What is held out
	// of a share is held out of a larger one.
	Share float64
	// Salt makes membership unpredictable to those who send labels. It is
	// secret, and the same in every process that shares a store.
	Salt []byte
}

// HeldOut reports whether a response is never trained on. All responses of a
// group are on the same side, which depends on nothing but group, salt and
// share.
//
// A response without a group was stored by a version that recorded none. It
// keeps the side of that version, a hash of its id, so that an upgrade moves no
// response from one side to the other.
func (s Split) HeldOut(id, group Hash) bool { return newSplitter(s).heldOut(id, group) }

// splitter is a Split with the state that its draws share.
type splitter struct {
	share float64
	mac   hash.Hash
	sum   []byte
}

func newSplitter(s Split) *splitter {
	return &splitter{share: s.Share, mac: hmac.New(sha256.New, s.Salt)}
}

func (s *splitter) heldOut(id, group Hash) bool {
	if group == (Hash{}) {
		return draw(id[:]) < s.share
	}
	s.mac.Reset()
	s.mac.Write(group[:])
	s.sum = s.mac.Sum(s.sum[:0])
	return draw(s.sum) < s.share
}

// draw maps a hash to [0,1).
func draw(hash []byte) float64 {
	const steps = 1 << 53 // as many as a float64 tells apart evenly
	return float64(binary.BigEndian.Uint64(hash)>>11) / steps
}
