package tokenizer

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unicodeText has the properties of all code points in Hugging Face tokenizers.
// Its libraries pin several versions of Unicode and Go's tables follow the Go
// release, so neither can replace the other.
//
//go:embed unicode.txt
var unicodeText string

// class is a set of properties of a code point.
type class uint16

const (
	letter    class = 1 << iota // \p{L}
	number                      // \p{N}
	space                       // \s
	punct                       // BERT's punctuation, always a separate word
	remove                      // removed by clean_text
	chinese                     // surrounded with spaces
	mark                        // removed by strip_accents
	decompose                   // has a canonical decomposition
	combining                   // has a combining class, so it may be reordered
	upper                       // has a lowercase form
)

const pageSize = 256

// classes maps code points to their properties: a table of pages.
type classes struct {
	pages  [(utf8.MaxRune + 1) / pageSize]*[pageSize]class
	lower  map[rune]rune
	orders map[rune]uint8 // canonical combining class where it is not 0
}

func (c *classes) of(r rune) class { return c.pages[r/pageSize][r%pageSize] }

// parseClasses reads the table: lines `class low-high[/stride] [value]`.
func parseClasses(text string) (*classes, error) {
	names := map[string]class{
		"letter": letter, "number": number, "space": space, "punct": punct, "remove": remove,
		"chinese": chinese, "mark": mark, "decompose": decompose, "combining": combining, "lower": upper,
	}
	c := &classes{lower: make(map[rune]rune), orders: make(map[rune]uint8)}
	empty := new([pageSize]class)
	for i := range c.pages {
		c.pages[i] = empty
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 || names[fields[0]] == 0 {
			return nil, fmt.Errorf("character table: unknown line %q", line)
		}
		low, high, stride, err := parseRange(fields[1])
		if err != nil {
			return nil, fmt.Errorf("character table: line %q: %w", line, err)
		}
		value := 0
		if len(fields) > 2 {
			if value, err = strconv.Atoi(fields[2]); err != nil {
				return nil, fmt.Errorf("character table: line %q: %w", line, err)
			}
		}
		k := names[fields[0]]
		for r := low; r <= high; r += stride {
			page := &c.pages[r/pageSize]
			if *page == empty {
				*page = new([pageSize]class)
			}
			(*page)[r%pageSize] |= k
			switch k {
			case upper:
				c.lower[r] = r + rune(value)
			case combining:
				c.orders[r] = uint8(value)
			}
		}
	}
	return c, nil
}

// parseRange reads `low-high` or `low-high/stride`, in hexadecimal.
func parseRange(text string) (low, high, stride rune, err error) {
	bounds, step, strided := strings.Cut(text, "/")
	first, last, _ := strings.Cut(bounds, "-")
	stride = 1
	if strided {
		n, err := strconv.ParseInt(step, 10, 8)
		if err != nil || n < 1 {
			return 0, 0, 0, fmt.Errorf("bad stride %q", step)
		}
		stride = rune(n)
	}
	l, err := strconv.ParseInt(first, 16, 32)
	if err != nil {
		return 0, 0, 0, err
	}
	h, err := strconv.ParseInt(last, 16, 32)
	if err != nil {
		return 0, 0, 0, err
	}
	if l < 0 || l > h || h > utf8.MaxRune {
		return 0, 0, 0, fmt.Errorf("range %q is empty or outside Unicode", text)
	}
	return rune(l), rune(h), stride, nil
}
