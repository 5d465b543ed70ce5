package segmenter

// horizon records whether a decision depends on text that may still arrive.
//
// A rule that compares an index with the end of its block calls past, or sets touched
// where it searches up to the end (see ahead). A decision that leaves touched false is
// final: it read only characters before the end, and more text does not change them. Any
// other decision about a block that may grow is discarded and made again when more of
// the text is known.
type horizon struct {
	touched bool // the decision read up to the end of what is known
}

// past reports whether i is at or beyond end.
func (h *horizon) past(i, end int) bool {
	if i < end {
		return false
	}
	h.touched = true
	return true
}

// near applies match, which tests its argument against the end with past, to at most
// n bytes of text[i:end]. The end of these n bytes is not the end of what is known.
func (s *scanner) near(i, end, n int, match func(*scanner, string) int) int {
	touched := s.touched
	got := match(s, s.text[i:min(end, i+n)])
	if i+n <= end {
		s.touched = touched
	}
	return got
}

// ahead returns at most n bytes of text[i:end], and whether these are all that a rule
// which reads n bytes can read, whatever follows. If not, and nothing in text decides, its
// caller sets touched.
func (s *scanner) ahead(i, end, n int) (text string, complete bool) {
	return s.text[i:min(end, i+n)], i+n <= end
}

// hasPrefix reports whether text[i:end] starts with prefix.
func (s *scanner) hasPrefix(i, end int, prefix string) bool {
	for k := range len(prefix) {
		if s.past(i+k, end) || s.text[i+k] != prefix[k] {
			return false
		}
	}
	return true
}
