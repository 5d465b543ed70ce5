package feedback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Split divides the labeled responses into those to train on and those that
// are held out for the gate.
type Split struct {
	// Share in [0,1] is the share of groups that is held out. A larger share
	// holds out a superset.
	Share float64
	// Salt makes membership unpredictable to senders of labels. It is
	// secret, and the same in every process that shares a store.
	Salt []byte
	// MaxSenderShare in (0,1] is the maximum share of one sender in the responses of a
	// side with the same labels, see LimitSenders; 0: 1.
	MaxSenderShare float64
}

// HeldOut reports whether a response is never trained on. All responses of a
// group are on the same side, which depends only on group, salt and share.
//
// A response without a group was stored by a release that recorded none. A hash of
// its id decides, as in that release, so that an upgrade moves no response from one
// side to the other.
func (s Split) HeldOut(id, group Hash) bool { return newSplitter(s).heldOut(id, group) }

// splitter is a Split with reusable buffers.
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
	const steps = 1 << 53 // evenly spaced float64 values in [0,1)
	return float64(binary.BigEndian.Uint64(hash)>>11) / steps
}
