package feedback

import (
	"time"

	"assay/rewardmodel/bag"
)

// RaterLabel is the label of one rater for a response, without the text.
type RaterLabel struct {
	Rater string `json:"rater"` // "": it was sent without one
	Labels
	Time     *time.Time `json:"time,omitzero"` // when the rater set it, if known
	Received time.Time  `json:"received"`      // by assay
	Sequence uint64     `json:"sequence"`      // in the stream of labels; training runs read up to a sequence
}

// ResponseLabels are the labels of a response that are in force. It does not reveal
// whether the response is held out.
type ResponseLabels struct {
	ID string `json:"id"`
	// Label is that of the majority, "" if there is none; Disputed reports that the
	// raters disagree, so that nothing is learned from the response.
	Label    bag.Label    `json:"label,omitzero"`
	Disputed bool         `json:"disputed"`
	Raters   int          `json:"raters"` // whose labels count
	Labels   []RaterLabel `json:"labels"` // oldest first, the first MaxRaterLabels; never nil
}

// MaxRaterLabels is the maximum number of labels in ResponseLabels.
const MaxRaterLabels = 1000

// Majority sets the label of the majority of the raters of a response, for a model
// with the given aspects; none: a single unnamed one.
func (x *Index) Majority(to *ResponseLabels, aspects ...string) {
	id := HashOf(to.ID)
	how := newResolver(Split{}, aspectsOr(aspects))
	x.mu.RLock()
	defer x.mu.RUnlock()
	first, known := x.first[id]
	if !known {
		return
	}
	b := x.resolve(id, first, x.others[id], how)
	to.Raters, to.Disputed = b.Raters, b.Disputed
	if !b.Unlabeled {
		to.Label = label(b.Violation, b.Disputed)
	}
}
