package js

import "strings"

// HeaderModelVersion is the version of the model that a reward or an event is about.
const HeaderModelVersion = "Assay-Model-Version"

// HeaderSequence is the sequence in the stream of responses of the one that a reward or dead letter is of.
const HeaderSequence = "Assay-Sequence"

// HeaderValue makes text valid for a header: one line of valid UTF-8, of at most
// 1 KiB.
func HeaderValue(text string) string {
	const limit = 1 << 10
	if len(text) > limit {
		text = text[:limit]
	}
	clean := func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}
	return strings.TrimSpace(strings.Map(clean, strings.ToValidUTF8(text, "?")))
}
