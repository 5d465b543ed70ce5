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

// unigram is the model of SentencePiece (Kudo 2018): of all ways to cut a word
// into pieces of the vocabulary, the one whose pieces' log probabilities have
// the largest sum.
type unigram struct {
	steps    []step
	words    metaspace
	cache    *wordCache
	next     *pairTable // (node, byte) -> node of the trie; the root is 0
	piece    []int32    // by node: the piece that ends there, or noPiece
	scores   []float64  // by id
	unknown  int32
	penalty  float64     // score of an unknown character
	fallback *[256]int32 // by byte: the token for it; nil: unknown is the unknown token
	scratch  sync.Pool   // *[]ending
}

const (
	noPiece = -1
	// unknownPenalty lies between the worst piece and an unknown character.
	unknownPenalty = 10
)

// unigramParts is what a file says of the model.
type unigramParts struct {
	scores   []float64 // of the first ids of the vocabulary
	special  []int32   // ids that no text becomes
	unknown  int
	fallback bool
	words    metaspace
	steps    []func(c *classes) step
}

func newUnigram(v *vocabulary, p *unigramParts, c *classes) (*unigram, error) {
	if p.unknown < 0 || p.unknown >= len(p.scores) {
		return nil, fmt.Errorf("model: unk_id %d is outside the vocabulary of %d", p.unknown, len(p.scores))
	}
	words := p.words
	words.classes = c
	u := &unigram{
		words: words, cache: newWordCache(), scores: p.scores, unknown: int32(p.unknown),
		scratch: sync.Pool{New: func() any { return new([]ending) }},
	}
	for _, make := range p.steps {
		u.steps = append(u.steps, make(c))
	}
	lowest := math.Inf(1)
	for _, score := range p.scores {
		lowest = min(lowest, score)
	}
	u.penalty = lowest - unknownPenalty
	u.plant(v.tokens[:len(p.scores)], append(slices.Clone(p.special), u.unknown))
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

// plant builds the trie of all pieces but those without.
func (u *unigram) plant(pieces []string, without []int32) {
	u.next = newPairTable(trieSize(pieces))
	u.piece = []int32{noPiece}
	for id, piece := range pieces {
		if piece == "" || slices.Contains(without, int32(id)) {
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

// trieSize is how many nodes beside the root a trie of the pieces has.
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

// ending is the best way to cut a word up to a place: the last piece, and where
// it begins.
type ending struct {
	score float64
	start int32 // -1: no way is known
	id    int32
}

// best finds the best way to cut a word, as the ending at each place of it.
func (u *unigram) best(caller *caller, word []byte, ends []ending) []ending {
	ends = append(ends[:0], ending{})
	for range word {
		ends = append(ends, ending{start: -1})
	}
	better := func(end, start int, id int32, score float64) {
		if e := &ends[end]; e.start < 0 || score > e.score {
			*e = ending{score, int32(start), id}
		}
	}
	for start := 0; start < len(word) && !caller.gone(1); {
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
			better(start+size, start, u.unknown, u.penalty+before)
		}
		start += size
	}
	return ends
}

// cut is a piece of a word: its id and how many bytes of the word it has.
type cut struct{ id, size int32 }

// appendCuts adds the pieces of a word; unknown characters in a row are one.
func (u *unigram) appendCuts(caller *caller, dst []cut, word []byte) []cut {
	scratch := u.scratch.Get().(*[]ending)
	defer u.scratch.Put(scratch)
	ends := u.best(caller, word, *scratch)
	*scratch = ends
	if caller.gone(0) {
		return dst
	}
	n := len(dst)
	for end := int32(len(word)); end > 0; {
		e := ends[end]
		if last := len(dst) - 1; e.id == u.unknown && last >= n && dst[last].id == u.unknown {
			dst[last].size += end - e.start
		} else {
			dst = append(dst, cut{e.id, end - e.start})
		}
		end = e.start
	}
	slices.Reverse(dst[n:])
	return dst
}

// encodeWord appends the ids of one word.
func (u *unigram) encodeWord(caller *caller, dst []int32, word []byte) []int32 {
	at := int32(0)
	for _, c := range u.appendCuts(caller, nil, word) {
		dst = u.appendCut(dst, c, word[at:at+c.size])
		at += c.size
	}
	return dst
}

// appendCut adds the ids of a piece: its own, or of an unknown one the bytes.
func (u *unigram) appendCut(dst []int32, c cut, text []byte) []int32 {
	if c.id != u.unknown || u.fallback == nil {
		return append(dst, c.id)
	}
	for _, b := range text {
		dst = append(dst, u.fallback[b])
	}
	return dst
}

func (u *unigram) normalize(text []byte, track bool) aligned {
	a := align(text, track)
	for _, s := range u.steps {
		a = s.apply(a)
	}
	return a
}

func (u *unigram) appendIDs(ctx context.Context, dst []int32, text []byte) []int32 {
	caller := caller{ctx: ctx}
	u.words.cut(u.normalize(text, false), func(word aligned) {
		if !caller.gone(len(word.text)) {
			dst = u.cache.append(&caller, dst, word.text, u.encodeWord)
		}
	})
	return dst
}

func (u *unigram) encode(text []byte) Encoding {
	e := Encoding{IDs: make([]int32, 0, len(text)/4+1), Offsets: make([]segmenter.Span, 0, len(text)/4+1)}
	var cuts []cut
	u.words.cut(u.normalize(text, true), func(word aligned) {
		cuts = u.appendCuts(nil, cuts[:0], word.text)
		at := 0
		for _, c := range cuts {
			end := at + int(c.size)
			e.IDs = u.appendCut(e.IDs, c, word.text[at:end])
			for len(e.Offsets) < len(e.IDs) {
				e.Offsets = append(e.Offsets, word.span(at, end))
			}
			at = end
		}
	})
	return e
}
