package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"unicode"

	"assay/rewardmodel/bag"
)

// The length of a passage in utterances is log-uniform between these.
const shortestPassage, longestPassage = 2, 25

// passages is a document from which runs of utterances are cut as they are, with its lists, paragraphs and code.
type passages struct {
	text []rune
	at   [][2]int // code points of the utterances
}

func passagesOf(b bag.Bag) passages {
	segments := segmentsOf(b)
	p := passages{text: []rune(b.Response), at: make([][2]int, len(segments))}
	for i, s := range segments {
		p.at[i] = s.Span
	}
	return p
}

// cutText is a run of utterances of a document, in two parts.
type cutText struct{ before, after []rune }

// around joins the parts with a text between them.
func (c cutText) around(text string) string {
	if len(c.before) > 0 {
		text = " " + text
	}
	if len(c.after) > 0 && !unicode.IsSpace(c.after[0]) {
		text += " "
	}
	return string(c.before) + text + string(c.after)
}

// random returns a random run, cut after a random one of its utterances, or before the first.
func (p passages) random(rng *rand.Rand) cutText {
	n := min(passageLength(rng), len(p.at))
	first := rng.IntN(len(p.at) - n + 1)
	cut := first + rng.IntN(n+1) // utterances before this one are before the cut
	begin, end := p.at[first][0], p.at[first+n-1][1]
	middle := begin
	if cut > first {
		middle = p.at[cut-1][1]
	}
	return cutText{p.text[begin:middle], p.text[middle:end]}
}

// about returns a random run about the given code points, and the same one without them.
func (p passages) about(rng *rand.Rand, span [2]int) (with, without string) {
	first, last := len(p.at), -1
	for i, at := range p.at {
		if at[0] < span[1] && span[0] < at[1] {
			first, last = min(first, i), i
		}
	}
	n := passageLength(rng)
	ahead := rng.IntN(n)
	begin := p.at[max(first-ahead, 0)][0]
	end := p.at[min(last+n-1-ahead, len(p.at)-1)][1]
	before := strings.TrimRight(string(p.text[begin:max(span[0], begin)]), " ")
	return string(p.text[begin:end]), before + string(p.text[min(span[1], end):end])
}

func passageLength(rng *rand.Rand) int {
	return int(shortestPassage * math.Pow(float64(longestPassage+1)/shortestPassage, rng.Float64()))
}
