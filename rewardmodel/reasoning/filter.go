package reasoning

import (
	"strings"

	"assay/segmenter"
)

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Answer returns the parts of a response that are not reasoning, in order,
// without the tags around it:
//
//   - <think>...</think> is reasoning, any number of times;
//   - a block that is never closed, as in a rollout that was cut off, reaches to
//     the end;
//   - a closing tag without an opening one ends a block that began before the
//     response (chat templates put <think> at the end of the prompt) or right
//     after the block before (a tag that the reasoning quoted had ended it);
//   - in the answer, a tag inside a closed code fence or between backticks on one
//     line is text. Inside of reasoning the first closing tag counts wherever it
//     is, because reasoning often stops in the middle of a fence.
//
// With opened, only what follows an opening tag is reasoning: a closing tag without
// one is text.
func Answer(text string, opened bool) []segmenter.Span {
	var parts []segmenter.Span
	f := Filter{opened: opened}
	for _, p := range f.Feed(text, true) {
		if p.Start < p.End {
			parts = append(parts, p.Span)
		}
	}
	return parts
}

// Piece is a piece of a part of the answer; see Filter.
type Piece struct {
	segmenter.Span      // of the text; may be empty
	Ends           bool // the part ends with it
	Void           bool // the part is not the answer after all, and another one starts; the span is empty
}

// Filter divides a text that grows into the parts that Answer returns. Text
// that is certainly not in a tag is returned immediately, and a tag is held back only
// while it may be in code: behind an open backtick of its line, or in a fence that is
// not closed yet. The zero value is ready to use.
type Filter struct {
	tagScanner
	inside bool // a block of reasoning
	after  int  // inside: where to look for its end
	sent   int  // the text before is returned, or is not the answer
	// held holds everything back until the first tag or the end of the text, since the
	// text begins in a block of reasoning.
	held   bool
	opened bool // a closing tag without an opening one is text
}

// NewFilter returns a filter of what follows the prompt; see Answer for opened. If the
// prompt ends with an opening tag, nothing is returned before the first tag of the text,
// unless opened is set.
func NewFilter(prompt string, opened bool) Filter {
	return Filter{opened: opened, held: !opened && strings.HasSuffix(strings.TrimSpace(prompt), thinkOpen)}
}

// Inside reports whether the text so far ends in a block of reasoning.
func (f *Filter) Inside() bool { return f.inside }

// Sent returns the end of the text that is returned, or is not the answer.
func (f *Filter) Sent() int { return f.sent }

// Feed returns what follows what it has returned. text is the whole text so far; final
// reports that it is complete.
func (f *Filter) Feed(text string, final bool) (pieces []Piece) {
	f.extend(text, final)
	for {
		if f.inside {
			i := strings.Index(text[f.after:], thinkClose)
			if i < 0 {
				f.after = max(f.after, len(text)-len(thinkClose)+1)
				return pieces
			}
			f.sent, f.inside = f.after+i+len(thinkClose), false
			f.jump(f.sent)
		}
		tag, opens, found := f.next()
		if !found {
			break
		}
		f.held = false
		if opens {
			pieces = append(pieces, Piece{Span: segmenter.Span{Start: f.sent, End: tag}, Ends: true})
			f.inside, f.after = true, tag+len(thinkOpen)
			continue
		}
		f.jump(tag + len(thinkClose))
		if f.opened {
			continue
		}
		f.sent = tag + len(thinkClose)
		pieces = append(pieces, Piece{Span: segmenter.Span{Start: f.sent, End: f.sent}, Void: true})
	}
	safe := f.safe()
	if f.held && !final {
		safe = f.sent
	}
	if f.sent < safe {
		pieces = append(pieces, Piece{Span: segmenter.Span{Start: f.sent, End: safe}})
		f.sent = safe
	}
	return pieces
}
