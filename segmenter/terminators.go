package segmenter

// class classifies a terminator by how it ends a sentence.
type class uint8

const (
	none     class = iota
	period         // "." ends a sentence or an abbreviation, number, domain name
	ellipsis       // "..." and "…" end a sentence or are a pause inside one
	exclaim        // "!" and "?"
	final          // terminators of scripts in which they have no other use
)

// marks is the set of bytes that sentences examines: the first bytes of every
// terminator, the backtick of inline code and the marks of layout. All other text
// is skipped at the cost of one table lookup per byte.
var marks = func() (t [256]bool) {
	for _, c := range []byte(".!?:;`*=_-~#<") {
		t[c] = true
	}
	// First bytes of the UTF-8 forms of the terminators in terminatorClass.
	for _, c := range []byte{0xCD, 0xD6, 0xD8, 0xDB, 0xDC, 0xDF, 0xE0, 0xE1, 0xE2, 0xE3, 0xEA, 0xEF, 0xF0} {
		t[c] = true
	}
	return t
}()

// terminatorClass classifies the terminators: the characters with Unicode's
// Sentence_Terminal property (UAX #29 STerm and ATerm), and the Greek question
// mark and the Tibetan shad, which end sentences without having it.
func terminatorClass(r rune) class {
	switch {
	case r < 0x80:
		switch r {
		case '.':
			return period
		case '!', '?':
			return exclaim
		}
		return none
	case r < 0x37E:
		return none
	case r < 0x2000:
		switch r {
		case 0x37E, // Greek question mark
			0x589,                      // Armenian
			0x61D, 0x61E, 0x61F, 0x6D4, // Arabic, Urdu
			0x700, 0x701, 0x702, // Syriac
			0x7F9,                      // N'Ko
			0x837, 0x839, 0x83D, 0x83E, // Samaritan
			0x964, 0x965, // danda of Devanagari and related scripts
			0xF0D, 0xF0E, 0xF0F, 0xF10, 0xF11, // Tibetan
			0x104A, 0x104B, // Myanmar
			0x1362, 0x1367, 0x1368, // Ethiopic
			0x166E,         // Canadian syllabics
			0x1735, 0x1736, // Philippine scripts
			0x17D4, 0x17D5, // Khmer
			0x1803, 0x1809, // Mongolian
			0x1944, 0x1945, // Limbu
			0x1AA8, 0x1AA9, 0x1AAA, 0x1AAB, // Tai Tham
			0x1B5A, 0x1B5B, 0x1B5E, 0x1B5F, // Balinese
			0x1C3B, 0x1C3C, // Lepcha
			0x1C7E, 0x1C7F: // Ol Chiki
			return final
		}
		return none
	case r < 0x3000:
		switch r {
		case 0x2026: // …
			return ellipsis
		case 0x203C, 0x203D, 0x2047, 0x2048, 0x2049, 0x2E2E, 0x2E3C, 0x2E53, 0x2E54:
			return exclaim
		}
		return none
	case r == 0x3002, r == 0xFF61, r == 0xFF01, r == 0xFF1F, r == 0xFE52, r == 0xFE56, r == 0xFE57:
		return final // 。｡！？ and their small forms
	case r == 0xFF0E:
		return period // ．
	case r >= 0xA000:
		switch r {
		case 0xA4FF, 0xA60E, 0xA60F, 0xA6F3, 0xA6F7, 0xA876, 0xA877, 0xA8CE, 0xA8CF,
			0xA92F, 0xA9C8, 0xA9C9, 0xAA5D, 0xAA5E, 0xAA5F, 0xAAF0, 0xAAF1, 0xABEB,
			0x11047, 0x11048, 0x110BE, 0x110BF, 0x110C0, 0x110C1, 0x11141, 0x11142, 0x11143,
			0x111C5, 0x111C6, 0x1144B, 0x1144C, 0x16E98, 0x1BC9F, 0x1DA88:
			return final
		}
	}
	return none
}

// closes reports whether r may occur between a terminator and the end of its
// sentence.
func closes(r rune) bool {
	switch r {
	case '"', '\'', ')', ']', '}', '*', '_', '~',
		'”', '’', '»', '›', '）', '］', '｝', '」', '』', '】', '〉', '》', '〕', '〗', '｣', '‟', '＂', '＇':
		return true
	}
	return false
}

// opens reports whether r may occur between white space and a first word.
func opens(r rune) bool {
	switch r {
	case '"', '\'', '(', '[', '{', '*', '_', '~', '<',
		'“', '‘', '«', '‹', '„', '‚', '¿', '¡', '（', '［', '「', '『', '【', '《', '〈':
		return true
	}
	return false
}

// quotes reports whether r ends direct speech.
func quotes(r rune) bool {
	switch r {
	case '"', '\'', '”', '’', '»', '›', '“', '」', '』':
		return true
	}
	return false
}

// spaceless reports whether r belongs to a script written without spaces between
// sentences, so that a terminator needs no space after it.
func spaceless(r rune) bool {
	return r >= 0x2E80 && (r < 0xA4D0 || r >= 0xF900 && r < 0xFB00 || r >= 0xFE30 && r < 0xFE50 ||
		r >= 0xFF00 && r < 0xFFF0 || r >= 0x20000 && r < 0x40000)
}
