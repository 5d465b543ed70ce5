// Package regex matches the regular expressions of pre-tokenizers as Oniguruma does, by backtracking. Go's regexp has
// no lookahead, and its Unicode tables differ from those of Hugging Face tokenizers, which are in properties.txt.
//
// It supports no captures and repeats a group at most 100 times. So only loops over single characters are unbounded,
// which bounds the depth of the recursion.
package regex

import "unicode/utf8"

// Regexp is a compiled regular expression. It is safe for concurrent use.
type Regexp struct{ start *node }

// node is a step of a match; the last one has no next.
type node struct {
	kind nodeKind
	next *node

	set        *charset // of characters: repeat a character of this set
	min, max   int
	quantifier quantifier

	branches []*node // of alternatives: each leads to next; of lookAhead: the only one ends on its own
	negative bool
}

type nodeKind int

const (
	characters nodeKind = iota
	alternatives
	lookAhead
)

// quantifier specifies how many characters a loop tries first, and whether it backtracks.
type quantifier int

const (
	greedy quantifier = iota
	lazy
	possessive
)

// Find returns the first nonempty match at or after from, or len(text) twice if there is none.
func (r Regexp) Find(text []byte, from int) (start, end int) {
	s := search{text: text}
	for start := from; start < len(text); {
		if end := s.match(r.start, start); end > start {
			return start, end
		}
		_, size := utf8.DecodeRune(text[start:])
		start += size
	}
	return len(text), len(text)
}

// search is one call of Find. Whether the nodes from one on match at a position does not depend on how they were reached,
// so what failed there need not be tried again: a pattern like (?:a|a){60}b would otherwise try 2^60 ways.
type search struct {
	text   []byte
	steps  int
	failed map[place]struct{} // after rememberAfter steps, which most searches do not take
}

type place struct {
	node *node
	at   int
}

const (
	rememberAfter = 10_000
	maxRemembered = 1 << 20 // places, some 50 MB
)

// match returns the end of the match of n and all nodes after it at text[at:], or -1.
func (s *search) match(n *node, at int) int {
	s.steps++
	if s.failed != nil {
		if _, known := s.failed[place{n, at}]; known {
			return -1
		}
	}
	end := s.try(n, at)
	if end < 0 && s.steps > rememberAfter {
		if s.failed == nil || len(s.failed) == maxRemembered {
			s.failed = map[place]struct{}{}
		}
		s.failed[place{n, at}] = struct{}{}
	}
	return end
}

func (s *search) try(n *node, at int) int {
	for n != nil {
		switch n.kind {
		case alternatives:
			for _, branch := range n.branches {
				if end := s.match(branch, at); end >= 0 {
					return end
				}
			}
			return -1
		case lookAhead:
			if (s.match(n.branches[0], at) >= 0) == n.negative {
				return -1
			}
		case characters:
			count, end := 0, at
			limit := n.max
			if n.quantifier == lazy {
				limit = n.min
			}
			for count < limit {
				size := n.set.at(s.text, end)
				if size == 0 {
					break
				}
				count, end = count+1, end+size
			}
			if count < n.min {
				return -1
			}
			if n.quantifier == lazy {
				return s.extend(n, count, end)
			}
			if n.quantifier == greedy && n.next != nil && count > n.min {
				return s.backtrack(n, count, end)
			}
			at = end
		}
		n = n.next
	}
	return at
}

// backtrack matches the nodes after a greedy loop, with one character fewer in the loop each time.
func (s *search) backtrack(n *node, count, end int) int {
	for ; ; count-- {
		if found := s.match(n.next, end); found >= 0 || count == n.min {
			return found
		}
		_, size := utf8.DecodeLastRune(s.text[:end])
		end -= size
	}
}

// extend matches the nodes after a lazy loop, with one more character in the loop each time.
func (s *search) extend(n *node, count, end int) int {
	for {
		if found := s.match(n.next, end); found >= 0 {
			return found
		}
		size := n.set.at(s.text, end)
		if size == 0 || count == n.max {
			return -1
		}
		count, end = count+1, end+size
	}
}
