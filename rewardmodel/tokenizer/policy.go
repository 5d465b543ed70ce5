package tokenizer

import (
	"context"
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
	model            *byteLevel
	classes          *classes
	rawTokens        addedTokens // matched in the original text
	normalizedTokens addedTokens // matched in the normalized text
	normalizers      []textNormalizer
	splits           []splitter
	trim             bool       // offsets exclude the spaces around a token
	trimFirst        bool       // including a single one at the start of the text, which add_prefix_space adds
	other            *Tokenizer // not byte-level BPE; the other fields are then unused
}

// LoadPolicy reads the tokenizer.json of a policy model: byte-level BPE with the
// normalizer NFC or none, and the pre-tokenizers Split, Digits and ByteLevel;
// otherwise it reads what Load does. Its errors are those of Load: it rejects what
// it cannot reproduce exactly.
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

// OffsetsContext returns the offsets of Encode, or the error of ctx soon after ctx is done.
func (p *Policy) OffsetsContext(ctx context.Context, text string) ([]segmenter.Span, error) {
	return offsets(ctx, text, p.encode)
}

// Encode returns the tokens of a text, without special tokens around it. Each
// byte that is not valid UTF-8 is encoded as U+FFFD, and its offset is the byte.
func (p *Policy) Encode(text string) Encoding { return p.encode(context.Background(), text) }

func (p *Policy) encode(ctx context.Context, text string) Encoding {
	if p.other != nil {
		return p.other.encode(ctx, text)
	}
	valid, gaps := repair(text)
	out := p.encodeValid(ctx, valid)
	gaps.restore(out.Offsets)
	return out
}

func (p *Policy) encodeValid(ctx context.Context, text []byte) Encoding {
	e := policyEncoding{Policy: p, cancel: cancellation{ctx: ctx}, track: true}
	room := len(text)/4 + 8
	e.out = Encoding{IDs: make([]int32, 0, room), Offsets: make([]segmenter.Span, 0, room)}
	e.spaces = make([][2]int, 0, room)
	e.encodeText(text)
	if p.trim {
		e.trimSpaces()
	}
	return e.out
}

// withTokens is a byte-level BPE with a normalizer or added tokens, as ModernBERT has: the model of a Tokenizer.
type withTokens struct{ policy *Policy }

func (m withTokens) encode(ctx context.Context, text []byte) Encoding {
	return m.policy.encodeValid(ctx, text)
}

func (m withTokens) appendIDs(ctx context.Context, dst []int32, text []byte) []int32 {
	e := policyEncoding{Policy: m.policy, cancel: cancellation{ctx: ctx}, out: Encoding{IDs: dst}}
	e.encodeText(text)
	return e.out.IDs
}

// policyEncoding is an encoding in progress.
type policyEncoding struct {
	*Policy
	cancel cancellation
	track  bool // compute offsets
	out    Encoding
	ids    []int32             // of one word
	spaces [][2]int            // by token: the number of leading and trailing spaces
	pieces [2][]segmenter.Span // reused for splitting
}

func (e *policyEncoding) add(id int32, at segmenter.Span, spaces [2]int) {
	e.out.IDs = append(e.out.IDs, id)
	if !e.track {
		return
	}
	e.out.Offsets = append(e.out.Offsets, at)
	e.spaces = append(e.spaces, spaces)
}

// encodeText finds the added tokens in the original text, and normalizes the text between them.
func (e *policyEncoding) encodeText(text []byte) {
	for at := 0; at < len(text) && !e.cancel.done(0); {
		start, end, token := e.rawTokens.find(text, at)
		if start > at {
			a := align(text[at:start], e.track)
			for _, n := range e.normalizers {
				a = n.apply(a)
			}
			e.encodeNormalized(a, at)
		}
		if token != nil {
			e.add(token.id, segmenter.Span{Start: start, End: end}, token.spaces)
		}
		at = end
	}
}

// encodeNormalized finds the added tokens in normalized text. base is its start in the original text.
func (e *policyEncoding) encodeNormalized(a aligned, base int) {
	for at := 0; at < len(a.text) && !e.cancel.done(0); {
		start, end, token := e.normalizedTokens.find(a.text, at)
		if start > at {
			e.encodeWords(a.slice(at, start), base)
		}
		if token != nil {
			e.add(token.id, e.span(a, start, end, base), token.spaces)
		}
		at = end
	}
}

// encodeWords splits text without added tokens into words, and encodes these.
func (e *policyEncoding) encodeWords(a aligned, base int) {
	words, split := append(e.pieces[0][:0], segmenter.Span{End: len(a.text)}), e.pieces[1][:0]
	for _, splitInto := range e.splits {
		for _, w := range words {
			n := len(split)
			split = splitInto(&e.cancel, split, a.text[w.Start:w.End])
			for i := range split[n:] {
				split[n+i].Start += w.Start
				split[n+i].End += w.Start
			}
		}
		words, split = split, words[:0]
	}
	for _, w := range words {
		if e.cancel.done(w.End - w.Start) {
			break
		}
		if !e.track {
			e.out.IDs = e.model.cache.append(&e.cancel, e.out.IDs, a.text[w.Start:w.End], e.model.encodeWord)
			continue
		}
		e.ids = e.model.cache.append(&e.cancel, e.ids[:0], a.text[w.Start:w.End], e.model.encodeWord)
		at := w.Start
		for _, id := range e.ids {
			raw := e.model.raw[id]
			e.add(id, e.span(a, at, at+len(raw), base), [2]int{
				len(raw) - len(strings.TrimLeft(raw, " ")), len(raw) - len(strings.TrimRight(raw, " ")),
			})
			at += len(raw)
		}
	}
	e.pieces = [2][]segmenter.Span{words, split}
}

// span returns the span of the original text that a part of a represents, where a starts at base; it is empty without
// offsets.
func (e *policyEncoding) span(a aligned, start, end, base int) segmenter.Span {
	if !e.track {
		return segmenter.Span{}
	}
	s := a.span(start, end)
	return segmenter.Span{Start: s.Start + base, End: s.End + base}
}

// trimSpaces excludes spaces from the offsets.
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

// addedToken is a token that is matched before a text is split into words.
type addedToken struct {
	content string
	id      int32
	spaces  [2]int // leading and trailing
	isText  bool   // as encode_special_tokens has it: a match is text, without other tokens
}

// addedTokens finds the leftmost added token in a text, and the longest at that position. It is indexed by first byte,
// and each list starts with the longest token.
type addedTokens [256][]addedToken

func (t *addedTokens) find(text []byte, from int) (start, end int, token *addedToken) {
	for at := from; at < len(text); {
		next := at + 1
		for i, token := range t[text[at]] {
			if end := at + len(token.content); end <= len(text) && string(text[at:end]) == token.content {
				if !token.isText {
					return at, end, &t[text[at]][i]
				}
				next = end
				break
			}
		}
		at = next
	}
	return len(text), len(text), nil
}

func newAddedToken(content string, id int32) addedToken {
	leading := len(content) - len(strings.TrimLeftFunc(content, unicode.IsSpace))
	trailing := len(content) - len(strings.TrimRightFunc(content, unicode.IsSpace))
	return addedToken{content: content, id: id, spaces: [2]int{leading, trailing}}
}

// splitter appends the pieces of a text, in order.
type splitter func(cancel *cancellation, dst []segmenter.Span, text []byte) []segmenter.Span

// byRegex splits at the matches of an expression, and keeps the matches, the gaps between them, or both.
func byRegex(r regex.Regexp, matches, gaps bool) splitter {
	return func(cancel *cancellation, dst []segmenter.Span, text []byte) []segmenter.Span {
		for at := 0; at < len(text); {
			start, end := r.Find(text, at)
			if cancel.done(end - at) {
				break
			}
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

// byGPT2 splits by GPT-2's pattern.
func byGPT2(c *classes) splitter {
	return func(cancel *cancellation, dst []segmenter.Span, text []byte) []segmenter.Span {
		for at := 0; at < len(text); {
			end := c.nextWord(text, at)
			if cancel.done(end - at) {
				break
			}
			dst = append(dst, segmenter.Span{Start: at, End: end})
			at = end
		}
		return dst
	}
}
