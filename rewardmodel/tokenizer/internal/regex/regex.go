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
	for start := from; start < len(text); {
		if end := match(r.start, text, start); end > start {
			return start, end
		}
		_, size := utf8.DecodeRune(text[start:])
		start += size
	}
	return len(text), len(text)
}

// match returns the end of the match of n and all nodes after it at text[at:], or -1.
func match(n *node, text []byte, at int) int {
	for n != nil {
		switch n.kind {
		case alternatives:
			for _, branch := range n.branches {
				if end := match(branch, text, at); end >= 0 {
					return end
				}
			}
			return -1
		case lookAhead:
			if (match(n.branches[0], text, at) >= 0) == n.negative {
				return -1
			}
		case characters:
			count, end := 0, at
			limit := n.max
			if n.quantifier == lazy {
				limit = n.min
			}
			for count < limit {
				size := n.set.at(text, end)
				if size == 0 {
					break
				}
				count, end = count+1, end+size
			}
			if count < n.min {
				return -1
			}
			if n.quantifier == lazy {
				return n.extend(text, count, end)
			}
			if n.quantifier == greedy && n.next != nil && count > n.min {
				return n.backtrack(text, count, end)
			}
			at = end
		}
		n = n.next
	}
	return at
}

// backtrack matches the nodes after a greedy loop, with one character fewer in the loop each time.
func (n *node) backtrack(text []byte, count, end int) int {
	for ; ; count-- {
		if found := match(n.next, text, end); found >= 0 || count == n.min {
			return found
		}
		_, size := utf8.DecodeLastRune(text[:end])
		end -= size
	}
}

// extend matches the nodes after a lazy loop, with one more character in the loop each time.
func (n *node) extend(text []byte, count, end int) int {
	for {
		if found := match(n.next, text, end); found >= 0 {
			return found
		}
		size := n.set.at(text, end)
		if size == 0 || count == n.max {
			return -1
		}
		count, end = count+1, end+size
	}
}
