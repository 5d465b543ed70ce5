package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"assay/rewardmodel/tokenizer/internal/regex"
	"assay/segmenter"
)

// Policy is the tokenizer of a policy model, such as those of the GPT-2, Llama-3
// and Qwen families: byte-level BPE after any of the usual pre-tokenizers. It
// provides the offsets of its tokens and is safe for concurrent use.
//
// Its results equal those of Hugging Face tokenizers with
// add_special_tokens=False: a special or added token in the text is one token.
type Policy struct {
	model       *byteLevel
	classes     *classes
	first       addedTokens // matched in the text as it is
	second      addedTokens // matched in the normalized text
	normalizers []step
	splits      []splitter
	trim        bool // offsets leave out the spaces around a token
	trimFirst   bool // also a single one at the start of the text, which others put there
	other       *Tokenizer
}

// LoadPolicy reads the tokenizer.json of a policy model: byte-level BPE with the
// normalizer NFC or none, and the pre-tokenizers Split, Digits and ByteLevel;
// otherwise it reads what Load does. Its errors are those of Load: what is not
// done exactly is rejected.
func LoadPolicy(dir string) (*Policy, error) {
	policy, err := read(dir, tokenizerFile, parsePolicy)
	if err == nil {
		return policy, nil
	}
	other, otherErr := Load(dir)
	switch {
	case otherErr == nil:
		return &Policy{other: other}, nil
	case errors.Is(err, ErrFormat) && !errors.Is(err, errNotBPE):
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return nil, otherErr
}

// Offsets returns the offsets of Encode.
func (p *Policy) Offsets(text string) []segmenter.Span { return p.Encode(text).Offsets }

// Encode returns the tokens of a text, without special tokens around it. Each
// byte that is not valid UTF-8 is encoded as U+FFFD, and its offset is the byte.
func (p *Policy) Encode(text string) Encoding {
	if p.other != nil {
		return p.other.Encode(text)
	}
	valid, gaps := repair(text)
	e := policyEncoding{Policy: p}
	room := len(valid)/4 + 8
	e.out = Encoding{IDs: make([]int32, 0, room), Offsets: make([]segmenter.Span, 0, room)}
	e.spaces = make([][2]int, 0, room)
	e.outer(valid)
	if p.trim {
		e.trimSpaces()
	}
	if len(gaps) > 0 {
		for i, s := range e.out.Offsets {
			e.out.Offsets[i] = segmenter.Span{Start: gaps.original(s.Start), End: gaps.original(s.End)}
		}
	}
	return e.out
}

// policyEncoding is an encoding on its way.
type policyEncoding struct {
	*Policy
	out    Encoding
	ids    []int32  // of one word
	spaces [][2]int // that each token begins and ends with
	pieces [2][]segmenter.Span
}

func (e *policyEncoding) add(id int32, at segmenter.Span, spaces [2]int) {
	e.out.IDs = append(e.out.IDs, id)
	e.out.Offsets = append(e.out.Offsets, at)
	e.spaces = append(e.spaces, spaces)
}

// outer finds the added tokens of the text as it is, and normalizes what is between.
func (e *policyEncoding) outer(text []byte) {
	for at := 0; at < len(text); {
		start, end, token := e.first.find(text, at)
		if start > at {
			a := align(text[at:start], true)
			for _, n := range e.normalizers {
				a = n.apply(a)
			}
			e.inner(a, at)
		}
		if token != nil {
			e.add(token.id, segmenter.Span{Start: start, End: end}, token.spaces)
		}
		at = end
	}
}

// inner finds the added tokens of the normalized text. base is where it begins.
func (e *policyEncoding) inner(a aligned, base int) {
	for at := 0; at < len(a.text); {
		start, end, token := e.second.find(a.text, at)
		if start > at {
			e.words(a.slice(at, start), base)
		}
		if token != nil {
			e.add(token.id, shifted(a.span(start, end), base), token.spaces)
		}
		at = end
	}
}

// words cuts the text into words, and these into tokens.
func (e *policyEncoding) words(a aligned, base int) {
	words, cut := append(e.pieces[0][:0], segmenter.Span{End: len(a.text)}), e.pieces[1][:0]
	for _, split := range e.splits {
		for _, w := range words {
			n := len(cut)
			cut = split(cut, a.text[w.Start:w.End])
			for i := range cut[n:] {
				cut[n+i].Start += w.Start
				cut[n+i].End += w.Start
			}
		}
		words, cut = cut, words[:0]
	}
	for _, w := range words {
		e.ids = e.model.cache.append(nil, e.ids[:0], a.text[w.Start:w.End], e.model.encodeWord)
		at := w.Start
		for _, id := range e.ids {
			raw := e.model.raw[id]
			e.add(id, shifted(a.span(at, at+len(raw)), base), [2]int{
				len(raw) - len(strings.TrimLeft(raw, " ")), len(raw) - len(strings.TrimRight(raw, " ")),
			})
			at += len(raw)
		}
	}
	e.pieces = [2][]segmenter.Span{words, cut}
}

func shifted(s segmenter.Span, base int) segmenter.Span {
	return segmenter.Span{Start: s.Start + base, End: s.End + base}
}

// trimSpaces leaves spaces out of the offsets.
func (e *policyEncoding) trimSpaces() {
	for i := range e.out.Offsets {
		s, spaces := &e.out.Offsets[i], e.spaces[i]
		if !e.trimFirst && spaces[0] == 1 && (i == 0 || s.Start == 0) {
			spaces[0] = 0
		}
		s.Start = min(s.Start+spaces[0], s.End)
		s.End = max(s.End-spaces[1], s.Start)
	}
}

// addedToken is a token that is found in a text before it is cut into words.
type addedToken struct {
	content string
	id      int32
	spaces  [2]int
}

// addedTokens finds the first of the tokens in a text, and the longest there: by first byte, the longest first.
type addedTokens [256][]addedToken

func (t *addedTokens) find(text []byte, from int) (start, end int, token *addedToken) {
	for at := from; at < len(text); at++ {
		for i, token := range t[text[at]] {
			if end := at + len(token.content); end <= len(text) && string(text[at:end]) == token.content {
				return at, end, &t[text[at]][i]
			}
		}
	}
	return len(text), len(text), nil
}

func newAddedToken(content string, id int32) addedToken {
	leading := len(content) - len(strings.TrimLeftFunc(content, unicode.IsSpace))
	trailing := len(content) - len(strings.TrimRightFunc(content, unicode.IsSpace))
	return addedToken{content, id, [2]int{leading, trailing}}
}

// splitter appends the pieces of a text, in order.
type splitter func(dst []segmenter.Span, text []byte) []segmenter.Span

// byRegex cuts at the matches of an expression, and keeps these or what is between, or both.
func byRegex(r regex.Regexp, matches, gaps bool) splitter {
	return func(dst []segmenter.Span, text []byte) []segmenter.Span {
		for at := 0; at < len(text); {
			start, end := r.Find(text, at)
			if gaps && start > at {
				dst = append(dst, segmenter.Span{Start: at, End: start})
			}
			if matches && end > start {
				dst = append(dst, segmenter.Span{Start: start, End: end})
			}
			at = end
		}
		return dst
	}
}

// byGPT2 cuts as GPT-2's pattern does.
func byGPT2(c *classes) splitter {
	return func(dst []segmenter.Span, text []byte) []segmenter.Span {
		for at := 0; at < len(text); {
			end := c.nextWord(text, at)
			dst = append(dst, segmenter.Span{Start: at, End: end})
			at = end
		}
		return dst
	}
}
