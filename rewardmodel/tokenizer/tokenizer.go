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

	respell func(text string) string // nil: not
}

// Respelled returns the tokenizer with a normalization before it, after those that it has: IDs are those of respell(text).
// Encode and its offsets, which are about the text itself, do not change.
func (t *Tokenizer) Respelled(respell func(text string) string) *Tokenizer {
	out := *t
	out.respell = respell
	if first := t.respell; first != nil {
		out.respell = func(text string) string { return respell(first(text)) }
	}
	return &out
}

// model is byte-level BPE, WordPiece or Unigram. Its texts are valid UTF-8.
type model interface {
	// appendIDs stops early when ctx is done; its result is then unusable.
	appendIDs(ctx context.Context, dst []int32, text []byte) []int32
	// encode is appendIDs with offsets.
	encode(ctx context.Context, text []byte) Encoding
}

// Encoding is a tokenized text: the ids and, for each, the span of the text that it
// represents. Both have the same length. Spans are in order, but tokens that share
// a character share its span, and a token of only spaces has an empty one.
type Encoding struct {
	IDs     []int32
	Offsets []segmenter.Span
}

// Encode returns the tokens of a text, without the special tokens of Frame.
// No text can become a special token: a literal </s> or [MASK] is plain text.
//
// Each byte that is not valid UTF-8 is encoded as U+FFFD, and its offset is the byte.
func (t *Tokenizer) Encode(text string) Encoding {
	return t.encode(context.Background(), text)
}

// OffsetsContext returns the offsets of Encode, or the error of ctx soon after ctx is done.
func (t *Tokenizer) OffsetsContext(ctx context.Context, text string) ([]segmenter.Span, error) {
	return offsets(ctx, text, t.encode)
}

func (t *Tokenizer) encode(ctx context.Context, text string) Encoding {
	valid, gaps := repair(text)
	e := t.model.encode(ctx, valid)
	gaps.restore(e.Offsets)
	return e
}

// offsets returns the offsets of encode, which stops early when ctx is done.
func offsets(ctx context.Context, text string, encode func(ctx context.Context, text string) Encoding) ([]segmenter.Span, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := encode(ctx, text)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return e.Offsets, nil
}

// IDs returns the ids of Encode, in less time and memory, after the normalization of Respelled.
func (t *Tokenizer) IDs(text string) []int32 {
	ids, _ := t.IDsContext(context.Background(), text) // never canceled
	return ids
}

// Counter returns a function that counts the tokens of a text, special tokens excluded, as the limit on the length of
// utterances does. The function returns the error of ctx soon after ctx is done.
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
	if t.respell != nil {
		text = t.respell(text)
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

// Special returns the number of tokens that Frame adds.
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

// DecodeToken returns the bytes of text that a token represents: " the" for "Ġthe",
// "ing" for "##ing". They may be a part of a character. It is nil for an id outside
// the vocabulary.
func (t *Tokenizer) DecodeToken(id int32) []byte {
	if id < 0 || int(id) >= len(t.tokens) {
		return nil
	}
	return []byte(t.raw(id))
}

// Vocab returns all tokens by id, as Token spells them.
func (t *Tokenizer) Vocab() []string { return slices.Clone(t.tokens) }

// parts is the content of the files of a tokenizer, in any of the layouts.
type parts struct {
	vocab  *vocabulary
	merges []string    // nil except for byte-level BPE
	around *policyJSON // what a byte-level BPE has beyond that of RoBERTa; nil for nothing
	before []int32
	after  []int32
	pad    int32

	unigram *unigramParts // nil except for Unigram

	ignoreMerges bool
	normalizer   normalizer
	unknown      string
	prefix       string
	maxChars     int
}

// build returns the tokenizer of the parts.
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
		if p.around != nil {
			t.model, err = aroundWords(b, c, p.around)
		}
		return t, err
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
