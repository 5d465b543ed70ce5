package segmenter

import (
	"context"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Limit returns spans with every span longer than maxLength split into pieces that
// are not, and never drops a non-space character. length counts the units, usually
// tokens, of a string; it may be any function that is roughly proportional to the
// size of its argument and need not be additive. A maxLength below 1 counts as 1.
//
// A span is split after the best boundary in the second half of what fits: the end
// of a line, then of a sentence, of a clause, of a word; within a word that is too
// long, between grapheme clusters. Only a single cluster that is longer than
// maxLength stays longer; clusters far beyond the Stream-Safe Text Format of
// UAX #15 (over 128 bytes) are split between code points.
//
// Limit checks ctx before each call of length. When ctx is done or length fails,
// it returns that error and no spans.
func Limit(ctx context.Context, text string, spans []Span, maxLength int, length func(string) (int, error)) ([]Span, error) {
	l := limiter{ctx: ctx, text: text, maxLength: max(maxLength, 1), length: length, out: make([]Span, 0, len(spans))}
	for _, span := range spans {
		if l.limit(span); l.err != nil {
			return nil, l.err
		}
	}
	return l.out, nil
}

// limiter splits one span after another.
type limiter struct {
	ctx       context.Context
	text      string
	maxLength int
	length    func(string) (int, error)
	out       []Span
	err       error // of ctx or length; once it is set, everything fits
}

// measure returns the length of s, or 0 after an error.
func (l *limiter) measure(s string) (n int) {
	if l.err == nil {
		l.err = l.ctx.Err()
	}
	if l.err == nil {
		n, l.err = l.length(s)
	}
	if l.err != nil {
		return 0
	}
	return n
}

func (l *limiter) limit(span Span) {
	size := span.End - span.Start
	total := l.measure(l.text[span.Start:span.End])
	if total <= l.maxLength {
		l.out = append(l.out, span)
		return
	}
	guess := int(int64(size) * int64(l.maxLength) / int64(total))
	for span.Start < span.End && l.err == nil {
		cut, piece := l.cut(span, guess)
		if piece.Start < piece.End {
			l.out = append(l.out, piece)
		}
		span = trim(l.text, Span{cut, span.End})
	}
}

// cut returns the first piece of span and where the rest starts.
func (l *limiter) cut(span Span, guess int) (cut int, piece Span) {
	rest := l.text[span.Start:span.End]
	cut = span.End
	if fits := l.fit(rest, guess); fits < len(rest) {
		cut = span.Start + bestCut(rest, fits)
	}
	piece = trim(l.text, Span{span.Start, cut})
	for piece.End > piece.Start && l.measure(l.text[piece.Start:piece.End]) > l.maxLength {
		// Not monotone here: a shorter prefix may still be too long.
		shorter := bestCut(l.text[piece.Start:piece.End], (piece.End-piece.Start)/2)
		if piece.Start+shorter >= piece.End {
			break
		}
		cut = piece.Start + shorter
		piece = trim(l.text, Span{piece.Start, cut})
	}
	return cut, piece
}

// fit returns how many leading bytes of s fit: guess is doubled until it brackets
// the result, which is then bisected, so that length never reads much more than
// fits.
func (l *limiter) fit(s string, guess int) int {
	lo, hi := 0, min(guess+1, len(s)) // lo fits; hi does not, after this loop
	for {
		at := runeFloor(s, hi)
		if l.measure(s[:at]) > l.maxLength {
			break
		}
		if lo = at; lo == len(s) {
			return lo
		}
		hi = min(hi*2, len(s))
	}
	for hi-lo > 1+lo/64 {
		mid := runeFloor(s, lo+(hi-lo)/2)
		if mid <= lo { // inside the character after lo
			_, n := utf8.DecodeRuneInString(s[lo:])
			if mid = lo + n; mid >= hi {
				break
			}
		}
		if l.measure(s[:mid]) <= l.maxLength {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// runeFloor returns the last rune boundary of s at or before i.
func runeFloor(s string, i int) int {
	for back := 0; i > 0 && i < len(s) && back < utf8.UTFMax && !utf8.RuneStart(s[i]); back++ {
		i--
	}
	return i
}

// bestCut returns where to split s so that the first part has at most limit bytes,
// or one grapheme cluster when none fits.
func bestCut(s string, limit int) int {
	if limit >= len(s) {
		return len(s)
	}
	if cut := lastBoundary(s, limit, limit/2); cut > 0 {
		return cut
	}
	if cut := lastBoundary(s, limit, 0); cut > 0 {
		return cut
	}
	return clusterCut(s, limit)
}

// lastBoundary returns the last boundary of the best kind in s[from:limit],
// or 0 when there is none.
func lastBoundary(s string, limit, from int) int {
	best, bestKind := 0, 0
	prev := ' ' // the last character that does not close a terminator
	at := func(i int, next rune) {
		if kind := cutKind(prev, next); i > 0 && i >= from && kind > 0 && kind >= bestKind {
			best, bestKind = i, kind
		}
	}
	for i, r := range s[:limit] {
		at(i, r)
		if !closes(r) || markKind(prev) == 0 {
			prev = r
		}
	}
	next, _ := utf8.DecodeRuneInString(s[limit:])
	at(limit, next)
	return best
}

// cutKind ranks the boundary between two characters: 4 after a line, 3 after
// a sentence, 2 after a clause, 1 after a word, 0 for none.
func cutKind(prev, next rune) int {
	space := unicode.IsSpace(next)
	switch {
	case prev == '\n':
		return 4
	case space || prev > unicode.MaxASCII && !closes(next):
		if kind := markKind(prev); kind > 0 {
			return kind
		}
	}
	if space || unicode.IsSpace(prev) {
		return 1
	}
	return 0
}

// markKind returns the kind of boundary that a punctuation mark makes.
func markKind(r rune) int {
	switch r {
	case ';', ':', ',', '—', '、', '，', '；', '：', '،', '؛':
		return 2
	}
	if terminatorClass(r) != none {
		return 3
	}
	return 0
}

// streamSafe is the maximum cluster of the Stream-Safe Text Format, in code points;
// a cluster with more bytes than those can have is split.
const streamSafe = 32

// clusterCut returns the last boundary between grapheme clusters at or before
// limit, else the end of the first cluster.
func clusterCut(s string, limit int) int {
	cut, state := 0, -1
	for cut < len(s) {
		near := runeFloor(s[cut:], min(len(s)-cut, streamSafe*utf8.UTFMax))
		cluster, _, _, next := uniseg.FirstGraphemeClusterInString(s[cut:cut+near], state)
		if cut > 0 && cut+len(cluster) > limit {
			break
		}
		cut, state = cut+len(cluster), next
	}
	return cut
}
