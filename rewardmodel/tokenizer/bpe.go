package tokenizer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"assay/segmenter"
)

// byteLevel is the byte-level BPE of GPT-2 and RoBERTa (Radford et al. 2019,
// section 2.2; the merges are Sennrich et al. 2016, algorithm 1).
type byteLevel struct {
	classes *classes
	cache   *wordCache
	pairs   *pairTable
	merged  []int32    // by rank: the token that results from the merge
	bytes   [256]int32 // the token of each single byte
	raw     []string   // by id: the bytes that the token represents
	whole   map[string]int32
	scratch sync.Pool // *mergeScratch
}

// newByteLevel builds the model from a vocabulary and the merges in order of
// rank, each "left right". With ignoreMerges, a word in the vocabulary is one token.
func newByteLevel(v *vocabulary, merges []string, ignoreMerges bool, c *classes) (*byteLevel, error) {
	alphabet := byteAlphabet()
	b := &byteLevel{
		classes: c,
		cache:   newWordCache(),
		pairs:   newPairTable(len(merges)),
		merged:  make([]int32, len(merges)),
		raw:     make([]string, len(v.tokens)),
		scratch: sync.Pool{New: func() any { return new(mergeScratch) }},
	}
	for value, symbol := range alphabet {
		id, ok := v.ids[symbol]
		if !ok {
			return nil, fmt.Errorf("vocabulary: no token %q for byte 0x%02x; a byte-level vocabulary needs all 256", symbol, value)
		}
		b.bytes[value] = id
	}
	for rank, merge := range merges {
		left, right, ok := strings.Cut(merge, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return nil, fmt.Errorf("merges: merge %d is %q, not two tokens separated by one space", rank+1, merge)
		}
		leftID, okLeft := v.ids[left]
		rightID, okRight := v.ids[right]
		id, ok := v.ids[left+right]
		if !okLeft || !okRight || !ok {
			return nil, fmt.Errorf("merges: merge %d, %q, needs the tokens %q, %q and %q in the vocabulary", rank+1, merge, left, right, left+right)
		}
		b.pairs.set(leftID, rightID, uint32(rank))
		b.merged[rank] = id
	}
	unmap := make(map[string]byte, len(alphabet))
	for value, symbol := range alphabet {
		unmap[symbol] = byte(value)
	}
	if ignoreMerges {
		b.whole = make(map[string]int32, len(v.ids))
	}
	for token, id := range v.ids {
		raw, ok := rawBytes(token, unmap)
		if !ok { // a special token, which represents itself
			b.raw[id] = token
			continue
		}
		b.raw[id] = raw
		if ignoreMerges {
			b.whole[raw] = id
		}
	}
	return b, nil
}

// rawBytes maps a token back to bytes, if all its characters are in the byte alphabet.
func rawBytes(token string, unmap map[string]byte) (string, bool) {
	raw := make([]byte, 0, len(token))
	for _, r := range token {
		value, ok := unmap[string(r)]
		if !ok {
			return "", false
		}
		raw = append(raw, value)
	}
	return string(raw), true
}

func (b *byteLevel) appendIDs(ctx context.Context, dst []int32, text []byte) []int32 {
	cancel := cancellation{ctx: ctx}
	for start := 0; start < len(text); {
		end := b.classes.nextWord(text, start)
		if cancel.done(end - start) {
			break
		}
		dst = b.cache.append(&cancel, dst, text[start:end], b.encodeWord)
		start = end
	}
	return dst
}

func (b *byteLevel) encode(ctx context.Context, text []byte) Encoding {
	ids := b.appendIDs(ctx, make([]int32, 0, len(text)/3+1), text)
	spans := make([]segmenter.Span, len(ids))
	pos := 0
	for i, id := range ids {
		raw := b.raw[id]
		spans[i] = trimmed(text, raw, pos, pos+len(raw))
		pos += len(raw)
	}
	return Encoding{IDs: ids, Offsets: spans}
}

// trimmed returns the span of a token at text[start:end]: a part of a character
// counts as the whole character, and spaces at either end do not count
// (trim_offsets), so that a token of only spaces is empty.
func trimmed(text []byte, raw string, start, end int) segmenter.Span {
	for start > 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	if raw[0] != ' ' && raw[len(raw)-1] != ' ' {
		return segmenter.Span{Start: start, End: end}
	}
	leading := len(raw) - len(strings.TrimLeft(raw, " "))
	trailing := len(raw) - len(strings.TrimRight(raw, " "))
	start = min(start+leading, end)
	return segmenter.Span{Start: start, End: max(end-trailing, start)}
}

// encodeWord appends the tokens of one word.
func (b *byteLevel) encodeWord(cancel *cancellation, dst []int32, word []byte) []int32 {
	if id, ok := b.whole[string(word)]; ok {
		return append(dst, id)
	}
	if len(word) <= shortWord {
		return b.mergeShort(dst, word)
	}
	return b.mergeLong(cancel, dst, word)
}
