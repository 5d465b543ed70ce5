package proxy

import (
	"sync"
)

// wholeCompletion guards the body of chat completions or completions that are not
// streamed, and returns what to send.
func wholeCompletion(a *answer, body []byte) ([]byte, error) {
	var c completion
	if err := decode(body, &c); err != nil {
		return nil, err
	}
	var choices sync.WaitGroup
	for i := range c.Choices {
		choices.Go(func() { wholeChoice(a, &c.Choices[i]) })
	}
	choices.Wait()
	if err := a.aborted(); err != nil {
		return nil, err
	}
	report := a.report()
	c.Assay = &report
	return encode(c), nil
}

// wholeChoice replaces the texts of a choice with what is released of them.
func wholeChoice(a *answer, c *choice) {
	c.Delta = nil
	var texts []*text
	slots := c.slots()
	for _, s := range slots {
		var t *text
		if s.text.text != "" && a.guarded(s.reasoning) {
			t = a.wholeText(c.Index, s.field, s.text.text)
		}
		texts = append(texts, t)
	}
	for i, t := range texts {
		if t == nil {
			continue
		}
		slots[i].text.text = t.close()
		if t.isWithheld() {
			c.FinishReason = textOf(contentFilter)
		}
	}
}

// wholeResponse is wholeCompletion for the body of /v1/responses.
func wholeResponse(a *answer, body []byte) ([]byte, error) {
	var o responseObject
	if err := decode(body, &o); err != nil {
		return nil, err
	}
	texts := responseTexts{a, map[partKey]*text{}}
	texts.object(&o)
	if err := a.aborted(); err != nil {
		return nil, err
	}
	report := a.report()
	o.Assay = &report
	return encode(o), nil
}

// observeWhole scores the texts of a body.
func observeWhole(a *answer, e endpoint, body []byte) {
	stream := newObservedStream(a, e, nil)
	if e == responseEndpoint {
		var o responseObject
		if err := decode(body, &o); err != nil {
			a.failed(err)
			return
		}
		for i, item := range o.Output {
			for _, parts := range []*[]contentPart{item.Content, item.Summary} {
				if parts == nil {
					continue
				}
				for j, p := range *parts {
					for _, text := range []*plain{p.Text, p.Refusal} {
						if text != nil {
							stream.add(i, partKey{i, p.Type, j}.field(), isReasoning(p.Type), text.text)
						}
					}
				}
			}
		}
		return
	}
	var c completion
	if err := decode(body, &c); err != nil {
		a.failed(err)
		return
	}
	for i := range c.Choices {
		for _, slot := range c.Choices[i].slots() {
			stream.add(c.Choices[i].Index, slot.field, slot.reasoning, slot.text.text)
		}
	}
}
