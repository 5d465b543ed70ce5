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
		own := make([]float32, w.end-w.first)
		for aspect, whole := range work.marginsOf(w.unique) {
			for i := range own {
				own[i] = work.marginsOf(utterances[w.first+i].unique)[aspect]
			}
			witness, raised := RaisedBy(whole, own)
			if !raised {
				continue
			}
			witness += w.first
			work.margins = append(work.margins, work.marginsOf(utterances[witness].unique)...)
			utterances[witness].unique = work.distinct() - 1 // equal utterances elsewhere keep their margins
			work.marginsOf(utterances[witness].unique)[aspect] = whole
			changed = min(changed, witness)
		}
	}
	return changed
}

// RaisedBy returns the index of the most anomalous utterance of a text, by the margins of its utterances, and whether the
// margin of the text as a whole is larger, which that utterance then gets.
func RaisedBy[M float32 | float64](whole M, margins []M) (witness int, raised bool) {
	for i, m := range margins {
		if m > margins[witness] {
			witness = i
		}
	}
	return witness, whole > margins[witness]
}
