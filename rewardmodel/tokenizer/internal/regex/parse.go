package regex

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxRepeat = 100 // of the counts in braces, and of the repetitions of a group
	maxDepth  = 50  // of groups in groups, which recurse
	maxNodes  = 1e5 // of a linked pattern, in which the nodes of a group are repeated
)

// term is a part of a regular expression before it is linked: a loop over a set of characters, a group of branches, or
// a lookahead.
type term struct {
	set        *charset
	branches   [][]term
	lookAhead  bool
	negative   bool
	min, max   int
	quantifier quantifier
}

// parser reads the part of Oniguruma's syntax that tokenizers use, and rejects the rest.
type parser struct {
	properties map[string][]runeRange
	rest       string
	fold       bool // inside (?i:...)
	depth      int  // of groups
}

// Compile parses a pattern.
func Compile(pattern string) (Regexp, error) {
	properties, err := parseProperties(propertiesText)
	if err != nil {
		return Regexp{}, err
	}
	p := &parser{properties: properties, rest: pattern}
	branches, err := p.branches()
	if err == nil && p.rest != "" {
		err = unsupported(")")
	}
	if err != nil {
		return Regexp{}, fmt.Errorf("regular expression %.200q: %w", pattern, err)
	}
	all := []term{{branches: branches, min: 1, max: 1}}
	if n := size(all); n > maxNodes {
		return Regexp{}, fmt.Errorf("regular expression %.200q: the repeated groups have %.0f nodes, above the limit of %.0f", pattern, n, maxNodes)
	}
	return Regexp{link(all, nil)}, nil
}

// size is how many nodes link makes of terms, about.
func size(terms []term) (nodes float64) {
	for _, t := range terms {
		n := 1.0
		for _, branch := range t.branches {
			n += 1 + size(branch)
		}
		if t.set == nil {
			n *= float64(t.max)
		}
		nodes += n
	}
	return nodes
}

func unsupported(syntax string) error { return fmt.Errorf("%.20q is not supported", syntax) }

// link turns terms into nodes that lead to next.
func link(terms []term, next *node) *node {
	for _, t := range slices.Backward(terms) {
		switch {
		case t.set != nil:
			next = &node{kind: characters, set: t.set, min: t.min, max: t.max, quantifier: t.quantifier, next: next}
		case t.lookAhead:
			next = &node{kind: lookAhead, negative: t.negative, branches: []*node{t.inner(nil)}, next: next}
		default:
			end := next
			for i := t.max; i > 0; i-- {
				next = t.inner(next)
				if i > t.min {
					next = &node{kind: alternatives, branches: []*node{next, skip(end)}}
					if t.quantifier == lazy {
						slices.Reverse(next.branches)
					}
				}
			}
		}
	}
	return next
}

// skip returns a node that matches the empty string and leads to next.
func skip(next *node) *node { return &node{kind: characters, set: &charset{}, next: next} }

// inner links the branches of a group.
func (t term) inner(next *node) *node {
	n := &node{kind: alternatives}
	for _, branch := range t.branches {
		n.branches = append(n.branches, link(branch, next))
	}
	return n
}

// branches reads alternatives until a closing parenthesis or the end of the pattern.
func (p *parser) branches() ([][]term, error) {
	var out [][]term
	var branch []term
	for {
		switch {
		case p.rest == "" || p.rest[0] == ')':
			return append(out, branch), nil
		case p.rest[0] == '|':
			p.rest = p.rest[1:]
			out, branch = append(out, branch), nil
			continue
		}
		t, err := p.term()
		if err != nil {
			return nil, err
		}
		branch = append(branch, t)
	}
}

// term reads a character, a set or a group, and its quantifier.
func (p *parser) term() (term, error) {
	t := term{min: 1, max: 1}
	var err error
	switch p.rest[0] {
	case '(':
		err = p.group(&t)
	case '[':
		p.rest = p.rest[1:]
		var ranges []runeRange
		if ranges, err = p.class(); err == nil {
			t.set = newCharset(ranges)
		}
	case '.':
		p.rest = p.rest[1:]
		t.set = newCharset(complement([]runeRange{{'\n', '\n'}}))
	case '^', '$', '*', '+', '?', '{':
		return t, unsupported(p.rest)
	default:
		var ranges []runeRange
		if ranges, err = p.character(); err == nil {
			t.set = newCharset(ranges)
		}
	}
	if err != nil {
		return t, err
	}
	if err := p.repeat(&t); err != nil {
		return t, err
	}
	if t.set == nil && (t.max > maxRepeat || t.quantifier == possessive || t.lookAhead && (t.min != 1 || t.max != 1)) {
		return t, fmt.Errorf("an unbounded or possessive group, or a repeated lookahead, is not supported")
	}
	return t, nil
}

// group reads parentheses and their content.
func (p *parser) group(t *term) error {
	outer := p.fold
	p.depth++
	defer func() { p.fold = outer; p.depth-- }()
	if p.depth > maxDepth {
		return fmt.Errorf("more than %d groups inside each other are not supported", maxDepth)
	}
	switch {
	case p.take("(?:"):
	case p.take("(?i:"):
		p.fold = true
	case p.take("(?!"):
		t.lookAhead, t.negative = true, true
	case p.take("(?="):
		t.lookAhead = true
	case strings.HasPrefix(p.rest, "(?"):
		return unsupported(p.rest)
	default:
		p.take("(")
	}
	var err error
	if t.branches, err = p.branches(); err != nil {
		return err
	}
	if !p.take(")") {
		return fmt.Errorf("a parenthesis is not closed")
	}
	return nil
}

func (p *parser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// repeat reads a quantifier, if there is one.
func (p *parser) repeat(t *term) error {
	bounded := false
	switch {
	case p.take("*"):
		t.min, t.max = 0, math.MaxInt
	case p.take("+"):
		t.max = math.MaxInt
	case p.take("?"):
		t.min = 0
	case p.take("{"):
		bounds, rest, ok := strings.Cut(p.rest, "}")
		low, high, ranged := strings.Cut(bounds, ",")
		var err error
		if t.min, err = strconv.Atoi(low); err != nil || !ok {
			return unsupported("{" + p.rest)
		}
		switch t.max = t.min; {
		case ranged && high == "":
			t.max = math.MaxInt
		case ranged:
			if t.max, err = strconv.Atoi(high); err != nil {
				return unsupported("{" + p.rest)
			}
		}
		if t.min < 0 || t.min > maxRepeat || t.max < max(t.min, 1) {
			return unsupported("{" + p.rest)
		}
		p.rest, bounded = rest, true
	default:
		return nil
	}
	switch {
	case p.take("?"):
		t.quantifier = lazy
	case !bounded && p.take("+"): // {n,m}+ repeats the repetition in Oniguruma
		t.quantifier = possessive
	}
	if p.rest != "" && strings.ContainsRune("*+?{", rune(p.rest[0])) {
		return unsupported(p.rest)
	}
	return nil
}

// class reads a set after its opening bracket.
func (p *parser) class() ([]runeRange, error) {
	negative := p.take("^")
	var out []runeRange
	for first := true; ; first = false {
		switch {
		case p.rest == "":
			return nil, fmt.Errorf("a bracket is not closed")
		case p.rest[0] == '[' || strings.HasPrefix(p.rest, "&&"):
			return nil, unsupported(p.rest)
		case p.rest[0] == ']' && first:
			return nil, unsupported(p.rest)
		case p.take("]"):
			if negative {
				out = complement(out)
			}
			return out, nil
		}
		ranges, err := p.character()
		if err != nil {
			return nil, err
		}
		if len(p.rest) > 1 && p.rest[0] == '-' && p.rest[1] != ']' {
			p.rest = p.rest[1:]
			last, err := p.character()
			if err != nil {
				return nil, err
			}
			if p.fold || !single(ranges) || !single(last) || ranges[0].low > last[0].low {
				return nil, fmt.Errorf("a range is out of order, has a bound that is not a character, or is inside (?i:...)")
			}
			ranges = []runeRange{{ranges[0].low, last[0].low}}
		}
		out = append(out, ranges...)
	}
}

func single(ranges []runeRange) bool { return len(ranges) == 1 && ranges[0].low == ranges[0].high }

// character reads a character or an escape.
func (p *parser) character() ([]runeRange, error) {
	if p.rest[0] == '\\' {
		return p.escape()
	}
	r, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	return p.folded(r), nil
}

// folded returns the character, and inside (?i:...) also those that differ only in case.
func (p *parser) folded(r rune) []runeRange {
	out := []runeRange{{r, r}}
	if p.fold {
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			out = append(out, runeRange{other, other})
		}
	}
	return out
}

func (p *parser) escape() ([]runeRange, error) {
	whole := p.rest
	if len(p.rest) < 2 {
		return nil, unsupported(whole)
	}
	c := p.rest[1]
	p.rest = p.rest[2:]
	if i := strings.IndexByte("nrtfv", c); i >= 0 {
		r := rune("\n\r\t\f\v"[i])
		return []runeRange{{r, r}}, nil
	}
	switch c {
	case 's':
		return p.properties["space"], nil
	case 'S':
		return complement(p.properties["space"]), nil
	case 'd':
		return p.properties["digit"], nil
	case 'D':
		return complement(p.properties["digit"]), nil
	case 'p', 'P':
		name, rest, ok := strings.Cut(p.rest, "}")
		p.rest = rest
		name, opened := strings.CutPrefix(name, "{")
		name, negative := strings.CutPrefix(name, "^")
		ranges := p.properties[strings.ToLower(name)]
		if !ok || !opened || ranges == nil {
			return nil, unsupported(whole)
		}
		if negative != (c == 'P') {
			ranges = complement(ranges)
		}
		return ranges, nil
	case 'u':
		if len(p.rest) >= 4 {
			if code, err := strconv.ParseUint(p.rest[:4], 16, 16); err == nil && utf8.ValidRune(rune(code)) {
				p.rest = p.rest[4:]
				return p.folded(rune(code)), nil
			}
		}
		return nil, unsupported(whole)
	}
	if c >= utf8.RuneSelf || c <= ' ' || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) {
		return nil, unsupported(whole)
	}
	return []runeRange{{rune(c), rune(c)}}, nil
}
