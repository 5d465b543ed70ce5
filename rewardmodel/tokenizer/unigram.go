package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"assay/segmenter"
)

// unigram is the model of SentencePiece (Kudo 2018): of all segmentations of a word
// into pieces of the vocabulary, the one with the largest sum of the pieces' log
// probabilities.
type unigram struct {
	normalizers  []textNormalizer
	preTokenizer metaspace
	cache        *wordCache
	next         *pairTable // (node, byte) -> node of the trie; the root is 0
	piece        []int32    // by node: the piece that ends there, or noPiece
	scores       []float64  // by id
	unknown      int32
	unknownScore float64     // of an unknown character
	fallback     *[256]int32 // by byte: its token; nil: unknown characters become the unknown token
	scratch      sync.Pool   // *[]ending
}

const (
	noPiece = -1
	// unknownPenalty is how much lower an unknown character scores than the worst piece.
	unknownPenalty = 10
)

// unigramParts is the content of a file with a Unigram model.
type unigramParts struct {
	scores       []float64 // of the first ids of the vocabulary
	special      []int32   // ids that text is never mapped to
	unknown      int
	fallback     bool
	preTokenizer metaspace
	normalizers  []func(c *classes) textNormalizer
}

func newUnigram(v *vocabulary, p *unigramParts, c *classes) (*unigram, error) {
	if p.unknown < 0 || p.unknown >= len(p.scores) {
		return nil, fmt.Errorf("model: unk_id %d is outside the vocabulary of %d", p.unknown, len(p.scores))
	}
	preTokenizer := p.preTokenizer
	preTokenizer.classes = c
	u := &unigram{
		preTokenizer: preTokenizer, cache: newWordCache(), scores: p.scores, unknown: int32(p.unknown),
		scratch: sync.Pool{New: func() any { return new([]ending) }},
	}
	for _, withClasses := range p.normalizers {
		u.normalizers = append(u.normalizers, withClasses(c))
	}
	lowest := math.Inf(1)
	for _, score := range p.scores {
		lowest = min(lowest, score)
	}
	u.unknownScore = lowest - unknownPenalty
	u.buildTrie(v.tokens[:len(p.scores)], append(slices.Clone(p.special), u.unknown))
	if p.fallback {
		u.fallback = new([256]int32)
		for b := range u.fallback {
			id, ok := v.ids[fmt.Sprintf("<0x%02X>", b)]
			if !ok {
				return nil, errors.New("model: byte_fallback needs the tokens <0x00> to <0xFF> in the vocabulary")
			}
			u.fallback[b] = id
		}
	}
	return u, nil
}

// buildTrie builds the trie of all pieces except the excluded ids.
func (u *unigram) buildTrie(pieces []string, excluded []int32) {
	u.next = newPairTable(trieSize(pieces))
	u.piece = []int32{noPiece}
	out := make([]bool, len(pieces))
	for _, id := range excluded {
		if id >= 0 && int(id) < len(out) {
			out[id] = true
		}
	}
	for id, piece := range pieces {
		if piece == "" || out[id] {
			continue
		}
		node := int32(0)
		for _, b := range []byte(piece) {
			next := u.next.rank(node, int32(b))
			if next == noMerge {
				next = uint32(len(u.piece))
				u.next.set(node, int32(b), next)
				u.piece = append(u.piece, noPiece)
			}
			node = int32(next)
		}
		u.piece[node] = int32(id)
	}
}

// trieSize returns the number of nodes in a trie of the pieces, without the root.
func trieSize(pieces []string) int {
	sorted := slices.Sorted(slices.Values(pieces))
	nodes, last := 0, ""
	for _, piece := range sorted {
		shared := 0
		for shared < min(len(piece), len(last)) && piece[shared] == last[shared] {
			shared++
		}
		nodes += len(piece) - shared
		last = piece
	}
	return nodes
}

// ending is the best segmentation of a word up to an offset: its score, the last
// piece, and where that starts.
type ending struct {
	score float64
	start int32 // -1: none is known
	id    int32
}

// best returns the best ending at each offset of a word.
func (u *unigram) best(cancel *cancellation, word []byte, ends []ending) []ending {
	ends = append(ends[:0], ending{})
	for range word {
		ends = append(ends, ending{start: -1})
	}
	better := func(end, start int, id int32, score float64) {
		if e := &ends[end]; e.start < 0 || score > e.score {
			*e = ending{score, int32(start), id}
		}
	}
	for start := 0; start < len(word) && !cancel.done(1); {
		_, size := utf8.DecodeRune(word[start:])
		before, single, node := ends[start].score, false, int32(0)
		for end := start; end < len(word); {
			next := u.next.rank(node, int32(word[end]))
			if next == noMerge {
				break
			}
			node = int32(next)
			end++
			if id := u.piece[node]; id != noPiece {
				better(end, start, id, u.scores[id]+before)
				single = single || end == start+size
			}
		}
		if !single {
			better(start+size, start, u.unknown, u.unknownScore+before)
		}
		start += size
	}
	return ends
}

// sizedPiece is a piece of a word: its id and its length in bytes.
type sizedPiece struct{ id, size int32 }

// appendPieces appends the pieces of a word; consecutive unknown characters are one piece.
func (u *unigram) appendPieces(cancel *cancellation, dst []sizedPiece, word []byte) []sizedPiece {
	scratch := u.scratch.Get().(*[]ending)
	defer u.scratch.Put(scratch)
	ends := u.best(cancel, word, *scratch)
	*scratch = ends
	if cancel.done(0) {
		return dst
	}
	n := len(dst)
	for end := int32(len(word)); end > 0; {
		e := ends[end]
		if last := len(dst) - 1; e.id == u.unknown && last >= n && dst[last].id == u.unknown {
			dst[last].size += end - e.start
		} else {
			dst = append(dst, sizedPiece{e.id, end - e.start})
		}
		end = e.start
	}
	slices.Reverse(dst[n:])
	return dst
}

// encodeWord appends the ids of one word.
func (u *unigram) encodeWord(cancel *cancellation, dst []int32, word []byte) []int32 {
	at := int32(0)
	for _, p := range u.appendPieces(cancel, nil, word) {
		dst = u.appendPieceIDs(dst, p, word[at:at+p.size])
		at += p.size
	}
	return dst
}

// appendPieceIDs appends the id of a piece, or the ids of its bytes if it is unknown and there is a byte fallback.
func (u *unigram) appendPieceIDs(dst []int32, p sizedPiece, text []byte) []int32 {
	if p.id != u.unknown || u.fallback == nil {
		return append(dst, p.id)
	}
	for _, b := range text {
		dst = append(dst, u.fallback[b])
	}
	return dst
}

func (u *unigram) normalize(text []byte, track bool) aligned {
	a := align(text, track)
	for _, n := range u.normalizers {
		a = n.apply(a)
	}
	return a
}

func (u *unigram) appendIDs(ctx context.Context, dst []int32, text []byte) []int32 {
	cancel := cancellation{ctx: ctx}
	u.preTokenizer.words(u.normalize(text, false), func(word aligned) {
		if !cancel.done(len(word.text)) {
			dst = u.cache.append(&cancel, dst, word.text, u.encodeWord)
		}
	})
	return dst
}

func (u *unigram) encode(ctx context.Context, text []byte) Encoding {
	cancel := cancellation{ctx: ctx}
	e := Encoding{IDs: make([]int32, 0, len(text)/4+1), Offsets: make([]segmenter.Span, 0, len(text)/4+1)}
	var pieces []sizedPiece
	u.preTokenizer.words(u.normalize(text, true), func(word aligned) {
		if cancel.done(len(word.text)) {
			return
		}
		pieces = u.appendPieces(&cancel, pieces[:0], word.text)
		at := 0
		for _, p := range pieces {
			end := at + int(p.size)
			e.IDs = u.appendPieceIDs(e.IDs, p, word.text[at:end])
			for len(e.Offsets) < len(e.IDs) {
				e.Offsets = append(e.Offsets, word.span(at, end))
			}
			at = end
		}
	})
	return e
}
