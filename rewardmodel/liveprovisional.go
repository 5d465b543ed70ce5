package rewardmodel

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/rewardmodel/batching"
	"assay/segmenter"
)

// openUtterance is the text after the last settled utterance of a part of the answer.
type openUtterance struct {
	start int // byte offset
	// scored and tried are where it ended when it was last scored, and when its tokens
	// were last counted.
	scored, tried int
	spans         spanCounter
}

// openBytes bounds how much of the end of an open utterance is scored, in bytes per token
// of a sequence. It also bounds the work for text that has few tokens.
const openBytes = 6

// scoreOpen scores the open utterance if it has grown by LiveRequest.Provisional tokens.
func (l *Live) scoreOpen(ctx context.Context) ([]LiveEvent, error) {
	least, end := l.request.Provisional, l.sent
	start := max(l.open.start, l.part.start)
	if least == 0 || !l.part.began || l.room() == 0 || end-max(start, l.open.tried) < least { // a token has at least one byte
		return nil, nil
	}
	l.open.tried = end
	text := l.text.String()
	span := openSpan(text, segmenter.Span{Start: max(start, end-openBytes*l.scorer.room), End: end})
	from := min(max(l.open.scored, span.Start), span.End)
	ids, err := l.scorer.tokenizer.IDsContext(ctx, text[from:span.End])
	if err != nil || len(ids) < least {
		return nil, err
	}
	l.open.scored = span.End
	u := utterance{text: text, span: span}
	work := preparation{Scorer: l.scorer, job: newJob(batching.Interactive, l.scorer.aspects()), seen: map[key]int{}, context: l.work.context}
	tokens, err := l.compute(ctx, &work, func() (err error) {
		u.unique, err = work.add(ctx, u.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	l.tokens.Provisional += tokens
	if l.open.spans.starts.byte < l.spans.ends.byte || l.open.spans.starts.unit == "" {
		l.open.spans = l.spans
	}
	v := l.verdict.clone()
	e := l.event(u, l.open.spans.count(text, span), work.job, &v, l.more(len(l.utterances)+1))
	e.Utterance.Provisional = true
	e.Stop = l.verdict.stop // what is open may still change
	l.part.reported = true
	return []LiveEvent{e}, nil
}

// openSpan is span without white space and unfinished characters at its ends; blank text
// becomes empty.
func openSpan(text string, span segmenter.Span) segmenter.Span {
	for n := 0; n < utf8.UTFMax-1 && span.Start < span.End && !utf8.RuneStart(text[span.Start]); n++ {
		span.Start++
	}
	for back := 1; back < utf8.UTFMax && back <= span.End-span.Start; back++ {
		if utf8.RuneStart(text[span.End-back]) {
			if !utf8.FullRuneInString(text[span.End-back : span.End]) {
				span.End -= back
			}
			break
		}
	}
	inner := strings.TrimLeftFunc(text[span.Start:span.End], unicode.IsSpace)
	span.Start = span.End - len(inner)
	span.End = span.Start + len(strings.TrimRightFunc(inner, unicode.IsSpace))
	return span
}
