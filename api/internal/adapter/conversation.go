package adapter

import (
	"fmt"

	"assay/api/chat"
	"assay/api/internal/exchange"
	"assay/rewardmodel"
	"assay/segmenter"
)

// turnBytes is the memory that the turns of a conversation need while they are parsed,
// per header of the chat template, including the turn after the header.
const turnBytes = 160

// Conversations parses the turns in the texts of one request. It counts their
// headers and charges the memory first, since a header takes more memory than it has
// bytes of text.
type Conversations struct {
	left, limit int // number of headers
	memory      *rewardmodel.Reservation
}

// NewConversations returns the conversations of a request, within its limits.
func NewConversations(x *exchange.Exchange) *Conversations {
	limit := x.Limits().MaxInstances()
	return &Conversations{left: limit, limit: limit, memory: x.Memory}
}

func (c *Conversations) charge(text string) error {
	n := chat.Headers(text)
	if n > c.left {
		return &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge,
			Message: fmt.Sprintf("the texts of the request have more than %d headers of chat templates; send fewer or shorter conversations per request", c.limit)}
	}
	c.left -= n
	return c.memory.Grow(turnBytes * int64(n))
}

// Turns calls chat.Turns.
func (c *Conversations) Turns(query, prompt string) ([]segmenter.Span, error) {
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

// Continuation calls chat.Continuation.
func (c *Conversations) Continuation(text string) ([]segmenter.Span, error) {
	if err := c.charge(text); err != nil {
		return nil, err
	}
	return chat.Continuation(text), nil
}

// Item returns the item for a text, which may be a conversation rendered with a
// chat template: then the last answer of the assistant is scored, and the turns before
// it are its prompt.
func (c *Conversations) Item(text string) (rewardmodel.Item, error) {
	if !chat.Templated(text) {
		return Response(text), nil
	}
	spans, err := c.Turns(text, "")
	if err != nil {
		return rewardmodel.Item{}, err
	}
	turns := make([]string, len(spans))
	for i, span := range spans {
		turns[i] = text[span.Start:span.End]
	}
	item := AssistantTurns(turns)
	item.Prompt, err = c.Before(text, spans)
	return item, err
}

// Before returns the context of the turns that Turns found in query.
func (c *Conversations) Before(query string, turns []segmenter.Span) (string, error) {
	return c.context(query[:turns[0].Start])
}

// Context calls chat.Context.
func (c *Conversations) Context(prompt string) (string, error) {
	if err := c.charge(prompt); err != nil {
		return "", err
	}
	return c.context(prompt)
}

func (c *Conversations) context(prompt string) (string, error) {
	if err := c.memory.Grow(2 * int64(len(prompt))); err != nil { // the turns without reasoning, and the text of all
		return "", err
	}
	return chat.Context(prompt), nil
}

// Items returns the item for each text.
func (c *Conversations) Items(texts []string) ([]rewardmodel.Item, error) {
	items := make([]rewardmodel.Item, len(texts))
	for i, text := range texts {
		var err error
		if items[i], err = c.Item(text); err != nil {
			return nil, err
		}
	}
	return items, nil
}
