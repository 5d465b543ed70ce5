package tokenizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsmap is the character map that SentencePiece compiles into a model
// (nmt_nfkc and the like): a double-array trie over the bytes of the keys,
// whose values are offsets into the concatenated replacements.
type charsmap struct {
	units []uint32
	text  []byte              // the replacements, each ends with a 0
	plain [utf8.RuneSelf]bool // ASCII characters that are not replaced
}

var errCharsmap = errors.New("precompiled_charsmap: damaged")

// parseCharsmap reads the size of the trie, the trie and the replacements.
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

// The fields of a unit of the trie, in the layout of Darts-clone.
func unitOffset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }

const (
	unitLeaf  = 1 << 8
	unitLabel = 1<<31 | 0xFF
	unitValue = 1<<31 - 1
)

// replacement returns the replacement of the shortest prefix of key in the map. It
// replaces all of key, as in the reference, which differs from SentencePiece here.
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

// longGrapheme is the minimum length in bytes of a grapheme that is replaced only
// character by character.
const longGrapheme = 6

func (m *charsmap) apply(a aligned) aligned {
	if m.allPlain(a.text) {
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

// allPlain reports whether all characters are plain, as in most texts.
func (m *charsmap) allPlain(text []byte) bool {
	for _, b := range text {
		if b >= utf8.RuneSelf || !m.plain[b] {
			return false
		}
	}
	return true
}

// firstGrapheme returns the first grapheme cluster of a text. Between two ASCII
// characters is always a boundary, except within CRLF.
func firstGrapheme(text []byte) []byte {
	if len(text) == 1 || text[0] < utf8.RuneSelf && text[1] < utf8.RuneSelf && text[0] != '\r' {
		return text[:1]
	}
	grapheme, _, _, _ := uniseg.FirstGraphemeCluster(text, -1)
	return grapheme
}

// appendReplaced appends the changes that replace old by text. Deleted characters
// are attributed to the character before, even if it belongs to another replacement.
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
