package segmenter

import "strings"

// blocks walks the lines of the text and hands each block to sentences.
func (s *scanner) blocks() {
	start := 0
	for start < len(s.text) {
		end := strings.IndexByte(s.text[start:], '\n')
		if end < 0 {
			end = len(s.text)
		} else {
			end += start + 1
		}
		s.sentences(start, start, end)
		start = end
	}
}
