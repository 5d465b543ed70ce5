package tokenizer

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// compose normalizes to NFC, the canonical composition.
type compose struct{ classes *classes }

func (s compose) apply(a aligned) aligned {
	if norm.NFC.IsNormal(a.text) {
		return a
	}
	var changes []change
	for i := 0; i < len(a.text); {
		end := i + norm.NFC.NextBoundary(a.text[i:], true)
		if part := a.text[i:end]; norm.NFC.IsNormal(part) {
			for _, r := range string(part) {
				changes = append(changes, change{r, 0})
			}
		} else {
			changes = s.recompose(changes, s.decompose(part))
		}
		i = end
	}
	return a.changed(changes)
}

// part is a character of a decomposition, with its combining class.
type part struct {
	change
	order uint8
}

// decompose returns the canonical decomposition in canonical order. All but the
// first part of each character are insertions.
func (s compose) decompose(text []byte) []part {
	var parts []part
	for _, r := range string(text) {
		whole := string(r)
		if s.classes.of(r)&decompose != 0 {
			whole = norm.NFD.String(whole)
		}
		n := int32(0)
		for _, r := range whole {
			parts = append(parts, part{change{r, n}, s.classes.orders[r]})
			n = 1
		}
	}
	for i := 0; i < len(parts); { // sort the marks between two starters
		end := i + 1
		for end < len(parts) && parts[end].order != 0 {
			end++
		}
		marks := parts[i:end]
		slices.SortStableFunc(marks, func(a, b part) int { return cmp.Compare(a.order, b.order) })
		i = end
	}
	return parts
}

// recompose composes the parts (Unicode Standard, D117). A part that is composed
// with a starter counts as deleted after it.
func (s compose) recompose(changes []change, parts []part) []change {
	starter, order := -1, uint8(0) // order is that of the last mark after the starter that was not composed
	for _, p := range parts {
		if starter >= 0 && (order == 0 || order < p.order) {
			if r, ok := composed(changes[starter].r, p.r); ok {
				changes[starter] = change{r, changes[starter].n + p.n - 1}
				continue
			}
		}
		changes = append(changes, p.change)
		switch {
		case p.order == 0:
			starter, order = len(changes)-1, 0
		case starter >= 0:
			order = p.order
		}
	}
	return changes
}

// composed returns the canonical composition of two characters, if there is one.
func composed(a, b rune) (rune, bool) {
	text := norm.NFC.String(string([]rune{a, b}))
	r, size := utf8.DecodeRuneInString(text)
	return r, size == len(text)
}
