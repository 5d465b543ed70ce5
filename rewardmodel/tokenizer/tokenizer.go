package tokenizer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"assay/segmenter"
)

// Tokenizer turns text into token ids. It is safe for concurrent use.
type Tokenizer struct {
	model  model
	tokens []string // by id; "" where the vocabulary has a gap
	raw    func(id int32) string
	before []int32
	after  []int32
	pad    int32
}

// model is what byte-level BPE, WordPiece and Unigram have in common. The text is valid UTF-8.
type model interface {
	// appendIDs stops early when ctx is done; its ids are then of no use.
	appendIDs(ctx context.Context, dst []int32, text []byte) []int32
	encode(text []byte) Encoding
}

// Encoding is a tokenized text: the ids and, for each, the bytes of the text
// that it stands for. Both have the same length. Spans come in order, but tokens
// that share one character share its span, and a token of spaces has an empty one.
type Encoding struct {
	IDs     []int32
	Offsets []segmenter.Span
}

// Encode returns the tokens of a text, without the special tokens of Frame.
// No text can become a special token: a literal </s> or [MASK] is plain text.
//
// Each byte that is not valid UTF-8 is encoded as U+FFFD, and its offset is the byte.
func (t *Tokenizer) Encode(text string) Encoding {
	valid, gaps := repair(text)
	e := t.model.encode(valid)
	if len(gaps) > 0 {
		for i, s := range e.Offsets {
			e.Offsets[i] = segmenter.Span{Start: gaps.original(s.Start), End: gaps.original(s.End)}
		}
	}
	return e
}

// Offsets returns the offsets of Encode.
func (t *Tokenizer) Offsets(text string) []segmenter.Span { return t.Encode(text).Offsets }

// IDs returns the ids of Encode, in less time and memory.
func (t *Tokenizer) IDs(text string) []int32 {
	ids, _ := t.IDsContext(context.Background(), text) // which is never canceled
	return ids
}

// Counter returns a function that counts the tokens of a text, special tokens excluded: the length by which utterances
// are limited. The function returns the error of ctx soon after ctx is done.
func (t *Tokenizer) Counter(ctx context.Context) func(text string) (int, error) {
	return func(text string) (int, error) {
		ids, err := t.IDsContext(ctx, text)
		return len(ids), err
	}
}

// IDsContext is IDs for a text of any size: it returns the error of ctx soon
// after ctx is done.
func (t *Tokenizer) IDsContext(ctx context.Context, text string) ([]int32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	valid, _ := repair(text)
	ids := t.model.appendIDs(ctx, make([]int32, 0, len(valid)/4+8), valid)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return ids, nil
}

// Frame returns the ids as the model reads them: <s> ids </s> or [CLS] ids [SEP].
func (t *Tokenizer) Frame(ids []int32) []int32 { return slices.Concat(t.before, ids, t.after) }

// Special returns how many tokens Frame adds.
func (t *Tokenizer) Special() int { return len(t.before) + len(t.after) }

// PadID returns the id of the padding token.
func (t *Tokenizer) PadID() int32 { return t.pad }

// VocabSize returns the number of rows that an embedding needs: the largest id plus one.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// Token returns a token as the vocabulary spells it, such as "Ġthe" or "##ing";
// it is "" for an id outside the vocabulary.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.tokens) {
		return ""
	}
	return t.tokens[id]
}

// DecodeToken returns the bytes of text that a token stands for: " the" of
// "Ġthe" (perhaps a part of a character), "ing" of "##ing". It is nil for an id
// outside the vocabulary.
func (t *Tokenizer) DecodeToken(id int32) []byte {
	if id < 0 || int(id) >= len(t.tokens) {
		return nil
	}
	return []byte(t.raw(id))
}

// Vocab returns all tokens by id, as Token spells them.
func (t *Tokenizer) Vocab() []string { return slices.Clone(t.tokens) }

// parts is what each of the three layouts of files yields.
type parts struct {
	vocab  *vocabulary
	merges []string // nil but for byte-level BPE
	before []int32
	after  []int32
	pad    int32

	unigram *unigramParts // nil for the others

	ignoreMerges bool
	normalizer   normalizer
	unknown      string
	prefix       string
	maxChars     int
}

// build makes the tokenizer of the parts.
func build(p parts) (*Tokenizer, error) {
	c, err := parseClasses(unicodeText)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{tokens: p.vocab.tokens, before: p.before, after: p.after, pad: p.pad}
	for _, id := range slices.Concat(p.before, p.after, []int32{p.pad}) {
		if id < 0 || int(id) >= len(t.tokens) {
			return nil, fmt.Errorf("special token id %d is outside the vocabulary of %d", id, len(t.tokens))
		}
	}
	if p.merges != nil {
		b, err := newByteLevel(p.vocab, p.merges, p.ignoreMerges, c)
		if err != nil {
			return nil, err
		}
		t.model, t.raw = b, func(id int32) string { return b.raw[id] }
		return t, nil
	}
	if p.unigram != nil {
		u, err := newUnigram(p.vocab, p.unigram, c)
		if err != nil {
			return nil, err
		}
		t.model, t.raw = u, func(id int32) string { return strings.ReplaceAll(t.tokens[id], lowerBlock, " ") }
		return t, nil
	}
	w, err := newWordPiece(p.vocab, p.normalizer.withClasses(c), p.unknown, p.prefix, p.maxChars)
	if err != nil {
		return nil, err
	}
	t.model, t.raw = w, func(id int32) string { return strings.TrimPrefix(w.tokens[id], w.prefix) }
	return t, nil
}
