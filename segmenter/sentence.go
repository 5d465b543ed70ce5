package segmenter

import "unicode/utf8"

// sentences cuts the block of prose text[start:end].
func (s *scanner) sentences(start, end int) {
	from := start
	for i := start; i < end; i++ {
		if c := s.text[i]; c != '.' && c != '!' && c != '?' {
			continue
		}
		j := i + 1
		for j < end && (s.text[j] == '"' || s.text[j] == ')' || s.text[j] == '.' || s.text[j] == '!' || s.text[j] == '?') {
			j++
		}
		if j < end && s.text[j] == ' ' && j+1 < end && (s.text[j+1] < 'a' || s.text[j+1] > 'z') && utf8.RuneStart(s.text[j]) {
			s.emit(from, j)
			from = j
		}
		i = j - 1
	}
	s.emit(from, end)
}
