package rewardmodel

import (
	"strings"

	"github.com/assay-ai/assay/segmenter"
)

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// answerParts returns the parts of a response that are not reasoning, in order.
func answerParts(text string) []segmenter.Span {
	var parts []segmenter.Span
	keep := func(start, end int) {
		if start < end {
			parts = append(parts, segmenter.Span{Start: start, End: end})
		}
	}
	at := 0
	for {
		open := strings.Index(text[at:], thinkOpen)
		if open < 0 {
			keep(at, len(text))
			return parts
		}
		keep(at, at+open)
		end := strings.Index(text[at+open:], thinkClose)
		if end < 0 {
			return parts
		}
		at += open + end + len(thinkClose)
	}
}
