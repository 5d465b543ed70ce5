package api

import (
	"cmp"
	"fmt"

	"assay/api/chat"
	"assay/rewardmodel"
	"assay/segmenter"
)

// turnBytes is what a header of a chat template takes while the turns of a
// conversation are found, the turn behind it included.
const turnBytes = 160

// conversations finds the turns of the texts of one request. It counts and
// charges them first: a header is few bytes of a text and many more in memory.
type conversations struct {
	left, limit int // headers
	memory      *rewardmodel.Reservation
}

func (s *Server) conversations(memory *rewardmodel.Reservation) *conversations {
	limit := cmp.Or(max(s.limits.Load().scoring.MaxInstances, 0), rewardmodel.DefaultMaxInstances)
	return &conversations{limit, limit, memory}
}

func (c *conversations) charge(text string) error {
	n := chat.Headers(text)
	if n > c.left {
		return &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge,
			Message: fmt.Sprintf("the texts of the request have more than %d headers of chat templates; send fewer or shorter conversations per request", c.limit)}
	}
	c.left -= n
	return c.memory.Grow(turnBytes * int64(n))
}

// turns is chat.Turns.
func (c *conversations) turns(query, prompt string) ([]segmenter.Span, error) {
	if err := c.charge(query); err != nil {
		return nil, err
	}
	search := chat.SearchBytes(query, prompt)
	if err := c.memory.Grow(search); err != nil {
		return nil, err
	}
	defer c.memory.Shrink(search)
	return chat.Turns(query, prompt), nil
}

// continuation is chat.Continuation.
func (c *conversations) continuation(text string) ([]segmenter.Span, error) {
	if err := c.charge(text); err != nil {
		return nil, err
	}
	return chat.Continuation(text), nil
}

// item is for a text that may be a conversation written out with a chat
// template, of which the last answer is scored then.
func (c *conversations) item(text string) (rewardmodel.Item, error) {
	if !chat.Templated(text) {
		return response(text), nil
	}
	spans, err := c.turns(text, "")
	if err != nil {
		return rewardmodel.Item{}, err
	}
	turns := make([]string, len(spans))
	for i, span := range spans {
		turns[i] = text[span.Start:span.End]
	}
	return spoken(turns), nil
}

// items are those of texts.
func (c *conversations) items(texts []string) ([]rewardmodel.Item, error) {
	items := make([]rewardmodel.Item, len(texts))
	for i, text := range texts {
		var err error
		if items[i], err = c.item(text); err != nil {
			return nil, err
		}
	}
	return items, nil
}
