package regex

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// propertiesText has the characters of \p{L} and the like in Hugging Face tokenizers. Go's tables follow another version
// of Unicode.
//
//go:embed properties.txt
var propertiesText string

// runeRange is the characters from low to high, inclusive.
type runeRange struct{ low, high rune }

// charset is a set of characters: sorted, disjoint ranges, and a table for ASCII.
type charset struct {
	ranges []runeRange
	ascii  [utf8.RuneSelf]bool
}

func newCharset(ranges []runeRange) *charset {
	s := &charset{ranges: merged(ranges)}
	for r := range rune(utf8.RuneSelf) {
		s.ascii[r] = s.contains(r)
	}
	return s
}

// merged sorts the ranges and joins those that overlap or are adjacent.
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

// complement returns the characters that are in none of the ranges.
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

func (s *charset) contains(r rune) bool {
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

// at returns the length of the character at text[i:] if it is in the set, otherwise 0.
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
	if s.contains(r) {
		return size
	}
	return 0
}

// parseProperties reads the table: lines `name low-high...`. Names become lowercase.
func parseProperties(text string) (map[string][]runeRange, error) {
	properties := map[string][]runeRange{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		var ranges []runeRange
		for _, bounds := range fields[1:] {
			r, err := parseRange(bounds)
			if err != nil {
				return nil, fmt.Errorf("property table: %s: %w", fields[0], err)
			}
			ranges = append(ranges, r)
		}
		properties[strings.ToLower(fields[0])] = ranges
	}
	return properties, nil
}

// parseRange reads `low-high` or a single code point, in hexadecimal.
func parseRange(bounds string) (runeRange, error) {
	first, last, ok := strings.Cut(bounds, "-")
	if !ok {
		last = first
	}
	low, err1 := strconv.ParseInt(first, 16, 32)
	high, err2 := strconv.ParseInt(last, 16, 32)
	return runeRange{rune(low), rune(high)}, errors.Join(err1, err2)
}
