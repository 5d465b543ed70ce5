package rewardmodel

import "unicode/utf8"

// ReadsWhole reports whether a model that reads texts of at most limit characters as a whole reads this text so, from the
// first of its utterances to the end of the last one.
func ReadsWhole(text string, utterances, limit int) bool {
	return utterances > 1 && len(text) <= limit*utf8.UTFMax && utf8.RuneCountInString(text) <= limit
}

// wholeReading is a short text that is scored as one instance in addition to its utterances: a violation may lie between
// two of them. Its margin replaces that of the most anomalous utterance if it is larger; so the response still has the
// instances of the segmenter, and its violation is their aggregate.
type wholeReading struct {
	first, end int // of its utterances
	unique     int // see job.marginsOf
}

// text is what is read: the utterances with what is between them.
func (w wholeReading) text(utterances []utterance) string {
	last := utterances[w.end-1]
	return last.text[utterances[w.first].span.Start:last.span.End]
}

// wholeOf returns the reading of the utterances from first on, which are all of a text, if the model reads it as a whole.
func (s *Scorer) wholeOf(utterances []utterance, first int, truncated bool) (wholeReading, bool) {
	w := wholeReading{first: first, end: len(utterances)}
	if truncated || w.end-first < 2 {
		return w, false
	}
	return w, ReadsWhole(w.text(utterances), w.end-first, s.config.WholeCharacters)
}

// raise gives the most anomalous utterance of each reading its margin, for each aspect in which that is larger, and returns
// the first utterance that has changed, or the number of utterances.
func raise(utterances []utterance, wholes []wholeReading, work *job) (changed int) {
	changed = len(utterances)
	for _, w := range wholes {
		for aspect, margin := range work.marginsOf(w.unique) {
			witness := w.witness(utterances, work, aspect)
			own := work.marginsOf(utterances[witness].unique)
			if margin <= own[aspect] {
				continue
			}
			utterances[witness].unique = work.distinct() // equal utterances elsewhere keep their margins
			work.margins = append(work.margins, own...)
			work.marginsOf(utterances[witness].unique)[aspect] = margin
			changed = min(changed, witness)
		}
	}
	return changed
}

func (w wholeReading) witness(utterances []utterance, work *job, aspect int) int {
	witness := w.first
	for i := w.first + 1; i < w.end; i++ {
		if work.marginsOf(utterances[i].unique)[aspect] > work.marginsOf(utterances[witness].unique)[aspect] {
			witness = i
		}
	}
	return witness
}

// RaiseMargins is the margins of the utterances of one text for one aspect, the largest of which becomes whole, that of the
// text as a whole, if it is smaller. margins is changed.
func RaiseMargins(margins []float64, whole float64) []float64 {
	witness := 0
	for i, m := range margins {
		if m > margins[witness] {
			witness = i
		}
	}
	margins[witness] = max(margins[witness], whole)
	return margins
}
