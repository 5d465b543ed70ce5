package tokenizer

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// propertiesText is what \p{L} and the like mean to Hugging Face tokenizers. Go's tables are of another Unicode.
//
//go:embed properties.txt
var propertiesText string

// runeRange is the characters from low to high, both included.
type runeRange struct{ low, high rune }

// charset is a set of characters: ranges in order, apart from each other, and a shortcut for ASCII.
type charset struct {
	ranges []runeRange
	ascii  [utf8.RuneSelf]bool
}

func newCharset(ranges []runeRange) *charset {
	s := &charset{ranges: merged(ranges)}
	for r := range rune(utf8.RuneSelf) {
		s.ascii[r] = s.search(r)
	}
	return s
}

// merged sorts ranges and joins those that touch.
func merged(ranges []runeRange) []runeRange {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b runeRange) int { return int(a.low - b.low) })
	var out []runeRange
	for _, r := range ranges {
		if n := len(out); n > 0 && r.low <= out[n-1].high+1 {
			out[n-1].high = max(out[n-1].high, r.high)
			continue
		}
		out = append(out, r)
	}
	return out
}

// complement is every character that is in none of the ranges.
func complement(ranges []runeRange) []runeRange {
	var out []runeRange
	next := rune(0)
	for _, r := range merged(ranges) {
		if r.low > next {
			out = append(out, runeRange{next, r.low - 1})
		}
		next = r.high + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, runeRange{next, utf8.MaxRune})
	}
	return out
}

func (s *charset) search(r rune) bool {
	_, found := slices.BinarySearchFunc(s.ranges, r, func(a runeRange, r rune) int {
		switch {
		case a.high < r:
			return -1
		case a.low > r:
			return 1
		}
		return 0
	})
	return found
}

// at returns the length of the character at text[i:] if it is in the set, else 0.
func (s *charset) at(text []byte, i int) int {
	if i >= len(text) {
		return 0
	}
	if b := text[i]; b < utf8.RuneSelf {
		if s.ascii[b] {
			return 1
		}
		return 0
	}
	r, size := utf8.DecodeRune(text[i:])
	if s.search(r) {
		return size
	}
	return 0
}

// parseProperties reads the table: lines `name low-high...`. Names are lowercase.
func parseProperties(text string) (map[string][]runeRange, error) {
	properties := map[string][]runeRange{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		var ranges []runeRange
		for _, bounds := range fields[1:] {
			if !strings.Contains(bounds, "-") {
				bounds += "-" + bounds
			}
			low, high, _, err := parseRange(bounds)
			if err != nil {
				return nil, fmt.Errorf("property table: %s: %w", fields[0], err)
			}
			ranges = append(ranges, runeRange{low, high})
		}
		properties[strings.ToLower(fields[0])] = ranges
	}
	return properties, nil
}
