package tokenizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsmap is the character map that SentencePiece compiles into a model
// (nmt_nfkc and the like): a double-array trie over the bytes of what to
// replace, whose values are places in a text of replacements.
type charsmap struct {
	units []uint32
	text  []byte // each replacement ends with a 0
	plain [utf8.RuneSelf]bool
}

var errCharsmap = errors.New("precompiled_charsmap: it is damaged")

// parseCharsmap reads the map: the size of the trie, the trie, the text.
func parseCharsmap(data []byte) (*charsmap, error) {
	if len(data) < 4 {
		return nil, errCharsmap
	}
	size := int64(binary.LittleEndian.Uint32(data))
	if size%4 != 0 || size == 0 || size > int64(len(data)-4) {
		return nil, errCharsmap
	}
	m := &charsmap{units: make([]uint32, size/4), text: data[4+size:]}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(data[4+4*i:])
	}
	if !utf8.Valid(m.text) {
		return nil, errCharsmap
	}
	for c := range m.plain {
		_, found := m.replacement([]byte{byte(c)})
		m.plain[c] = !found
	}
	return m, nil
}

// The fields of a unit of the trie, as Darts-clone lays them out.
func unitOffset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }

const (
	unitLeaf  = 1 << 8
	unitLabel = 1<<31 | 0xFF
	unitValue = 1<<31 - 1
)

// replacement is what stands for the shortest beginning of key that is in the
// map. It takes the place of all of key: so does the reference, which differs
// from SentencePiece there.
func (m *charsmap) replacement(key []byte) (text []byte, ok bool) {
	at := unitOffset(m.units[0])
	for _, c := range key {
		at ^= uint32(c)
		if c == 0 || at >= uint32(len(m.units)) {
			return nil, false
		}
		unit := m.units[at]
		if unit&unitLabel != uint32(c) {
			return nil, false
		}
		at ^= unitOffset(unit)
		if unit&unitLeaf == 0 {
			continue
		}
		if at >= uint32(len(m.units)) {
			return nil, false
		}
		value := m.units[at] & unitValue
		if value > uint32(len(m.text)) {
			return nil, false
		}
		text, _, _ = bytes.Cut(m.text[value:], []byte{0})
		return text, true
	}
	return nil, false
}

// longGrapheme is from how many bytes on a grapheme is replaced character by
// character only.
const longGrapheme = 6

func (m *charsmap) apply(a aligned) aligned {
	if m.keeps(a.text) {
		return a
	}
	changes := make([]change, 0, len(a.text))
	modified := false
	put := func(old []byte) bool {
		text, ok := m.replacement(old)
		if ok {
			modified = true
			changes = appendReplaced(changes, old, text)
		}
		return ok
	}
	rest := a.text
	for len(rest) > 0 {
		grapheme := firstGrapheme(rest)
		rest = rest[len(grapheme):]
		if len(grapheme) < longGrapheme && put(grapheme) {
			continue
		}
		for len(grapheme) > 0 {
			r, size := utf8.DecodeRune(grapheme)
			if !put(grapheme[:size]) {
				changes = append(changes, change{r, 0})
			}
			grapheme = grapheme[size:]
		}
	}
	if !modified {
		return a
	}
	return a.changed(changes)
}

// keeps tells of most texts that nothing in them is replaced.
func (m *charsmap) keeps(text []byte) bool {
	for _, b := range text {
		if b >= utf8.RuneSelf || !m.plain[b] {
			return false
		}
	}
	return true
}

// firstGrapheme is the first user-perceived character of a text; between two
// ASCII characters, only a line break is not a boundary.
func firstGrapheme(text []byte) []byte {
	if len(text) == 1 || text[0] < utf8.RuneSelf && text[1] < utf8.RuneSelf && text[0] != '\r' {
		return text[:1]
	}
	grapheme, _, _, _ := uniseg.FirstGraphemeCluster(text, -1)
	return grapheme
}

// appendReplaced adds the changes that make old into text. What is dropped
// counts to the character before, even if that is of another replacement.
func appendReplaced(changes []change, old, text []byte) []change {
	more := utf8.RuneCount(text) - utf8.RuneCount(old)
	for _, r := range string(text) {
		changes = append(changes, change{r, 0})
	}
	switch {
	case more > 0:
		for i := len(changes) - more; i < len(changes); i++ {
			changes[i].n = 1
		}
	case more < 0 && len(changes) > 0:
		changes[len(changes)-1].n += int32(more)
	}
	return changes
}
