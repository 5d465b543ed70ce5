package tokenizer

import "unicode/utf8"

// regex is a regular expression as pre-tokenizers have them, matched by
// backtracking, as Oniguruma does. It knows no captures, so that a loop is over
// single characters alone, and neither depth nor time run away on long texts.
type regex struct{ start *node }

// node is a step of a match; what comes after the last is nil.
type node struct {
	kind nodeKind
	next *node

	set      *charset // characters: of this set, greedily
	min, max int
	greed    greed

	branches []*node // alternatives: each leads to next; look: one, to its own end
	negative bool
}

type nodeKind int

const (
	characters nodeKind = iota
	alternatives
	lookAhead
)

// greed says how many characters a loop takes first, and whether it gives back.
type greed int

const (
	greedy greed = iota
	lazy
	possessive
)

// find returns the first match at or after from, or len(text) twice.
func (r regex) find(text []byte, from int) (start, end int) {
	for start := from; start < len(text); {
		if end := match(r.start, text, start); end > start {
			return start, end
		}
		_, size := utf8.DecodeRune(text[start:])
		start += size
	}
	return len(text), len(text)
}

// match returns the end of the match of n and what follows it at text[at:], or -1.
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
			most := n.max
			if n.greed == lazy {
				most = n.min
			}
			for count < most {
				size := n.set.at(text, end)
				if size == 0 {
					break
				}
				count, end = count+1, end+size
			}
			if count < n.min {
				return -1
			}
			if n.greed == lazy {
				return n.extend(text, count, end)
			}
			if n.greed == greedy && n.next != nil && count > n.min {
				return n.giveBack(text, count, end)
			}
			at = end
		}
		n = n.next
	}
	return at
}

// giveBack tries what follows a greedy loop, with a character less each time.
func (n *node) giveBack(text []byte, count, end int) int {
	for ; ; count-- {
		if found := match(n.next, text, end); found >= 0 || count == n.min {
			return found
		}
		_, size := utf8.DecodeLastRune(text[:end])
		end -= size
	}
}

// extend tries what follows a lazy loop, with a character more each time.
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
